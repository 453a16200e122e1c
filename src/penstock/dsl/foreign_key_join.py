"""Joins of two tables by a foreign key in the values of the left one.

The left table sends a subscription to the partition of the foreign key, where it is kept beside the right table; the
answer, the right table's value, comes back to the partition of the left table's key and is joined there:

    left table ─ send ─► subscription topic ─► receive ─ join ─┐
                                     right table ─ join ───────┴─► response topic ─► resolve ─► result
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl import ktable
from penstock.dsl.options import Materialized, TableJoined
from penstock.graph import naming
from penstock.graph.dsl_stores import configured_dsl_store_suppliers
from penstock.graph.join_stores import SubscriptionStoreBuilder
from penstock.graph.materialize import MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode, ProcessorToStateConnectorNode, VersionAwareProcessorNode
from penstock.graph.pseudo_topic import PseudoTopic
from penstock.graph.sinks import StreamSinkNode
from penstock.graph.sources import SourceOptions, StreamSourceNode
from penstock.operators import (
    CombinedKeySchema,
    ForeignTableJoinProcessorSupplier,
    KTableSource,
    ResponseJoinProcessorSupplier,
    SubscriptionJoinProcessorSupplier,
    SubscriptionReceiveProcessorSupplier,
    SubscriptionResponseWrapperSerde,
    SubscriptionSendProcessorSupplier,
    SubscriptionWrapperSerde,
)
from penstock.operators.functions import KeyPartitioner, RespondToPrimaryPartition
from penstock.serdes.guessed import guess_value
from penstock.serdes.serde import as_serializer
from penstock.topology.internal_topics import InternalTopicProperties

_TOPIC_SUFFIX = "-topic"


def join_on_foreign_key(
    left: ktable.KTable[Any, Any],
    right: ktable.KTable[Any, Any],
    foreign_key: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    joined: TableJoined[Any, Any],
    materialized: Materialized[Any, Any],
    left_join: bool,
) -> ktable.KTable[Any, Any]:
    """Join two tables of any partitioning by a foreign key of the left one.

    1. subscribe: send subscriptions from the left table to the partition of the foreign key;
    2. answer: keep them beside the right table, and answer them now and whenever the right table changes;
    3. resolve: join the answers with the left table, where they have come back to;
    4. keep the results as a table.

    The order of the steps is the order in which names are numbered.
    """
    # Old values tell which subscriptions to take back, and which changes of the right table change nothing.
    right._parent.enable_sending_old_values(True)
    left._parent.enable_sending_old_values(True)
    join = _ForeignKeyJoin(left, right, joined, left_join)
    subscriptions = join.subscribe(foreign_key)
    answers = join.answer(subscriptions)
    resolved, sources = join.resolve(answers, joiner)
    return join.keep(resolved, sources, materialized, joiner)


class _ForeignKeyJoin:
    def __init__(
        self, left: ktable.KTable[Any, Any], right: ktable.KTable[Any, Any], joined: TableJoined[Any, Any], left_join: bool
    ) -> None:
        self._left, self._right = left, right
        self._joined = joined
        self._left_join = left_join
        self._builder = left._builder
        self._topology = left._builder.topology
        self._named = Named(joined.name)
        self._subscription_topic = self._name("-subscription-registration", naming.FK_SUBSCRIPTION_REGISTRATION) + _TOPIC_SUFFIX
        primary_key_topic, self._foreign_key_topic, self._value_hash_topic = (
            PseudoTopic(self._topology, self._subscription_topic + suffix) for suffix in ("-pk", "-fk", "-vh")
        )
        self._subscription_serde = SubscriptionWrapperSerde(primary_key_topic, left._key_serde)
        self._key_schema: CombinedKeySchema[Any, Any] = CombinedKeySchema(
            self._foreign_key_topic, right._key_serde, primary_key_topic, left._key_serde
        )
        self._left_serializer = as_serializer(left._value_serde)

    def _name(self, suffix: str, prefix: str) -> str:
        return self._named.suffixed_or_generate(suffix, self._builder.names, prefix)

    def subscribe(self, foreign_key: Callable[[Any, Any], Any]) -> GraphNode:
        right = self._right
        self._topology.add_internal_topic(self._subscription_topic, InternalTopicProperties())
        supplier = SubscriptionSendProcessorSupplier(
            foreign_key,
            self._foreign_key_topic,
            self._value_hash_topic,
            right._key_serde,
            self._left_serializer,
            self._left_join,
        )
        send_name = self._name("-subscription-registration-processor", naming.FK_SUBSCRIPTION_REGISTRATION)
        send = VersionAwareProcessorNode(ProcessorParameters(supplier, send_name))
        self._builder.add_graph_node(self._left._graph_node, send)
        partitioner = self._joined.other_partitioner
        sink = StreamSinkNode(
            self._name("-subscription-registration-sink", naming.TABLE_SINK),
            self._subscription_topic,
            right._key_serde,
            self._subscription_serde,
            None if partitioner is None else KeyPartitioner(partitioner),
        )
        self._builder.add_graph_node(send, sink)
        source = StreamSourceNode(
            self._name("-subscription-registration-source", naming.TABLE_SOURCE),
            [self._subscription_topic],
            SourceOptions(right._key_serde, self._subscription_serde),
        )
        self._builder.add_graph_node(sink, source)
        self._topology.copartition_sources(right._source_nodes | {source.node_name})
        return source

    def answer(self, subscriptions: GraphNode) -> list[GraphNode]:
        builder, right = self._builder, self._right
        store_name = self._name("-subscription-store", naming.FK_SUBSCRIPTION_STORE)
        store = SubscriptionStoreBuilder(store_name, self._subscription_serde, configured_dsl_store_suppliers(builder.config))
        receive_name = self._name("-subscription-receive", naming.FK_SUBSCRIPTION_PROCESSOR)
        receiver = SubscriptionReceiveProcessorSupplier(store_name, self._key_schema)
        receive = ProcessorGraphNode(ProcessorParameters(receiver, receive_name, [store]))
        builder.add_graph_node(subscriptions, receive)
        right_values = right._parent.value_getter_supplier()
        lookup_name = self._name("-subscription-join-foreign", naming.FK_SUBSCRIPTION_PROCESSOR)
        lookup = ProcessorToStateConnectorNode(
            ProcessorParameters(SubscriptionJoinProcessorSupplier(right_values), lookup_name), right_values.store_names
        )
        builder.add_graph_node(receive, lookup)
        change_name = self._name("-foreign-join-subscription", naming.FK_SUBSCRIPTION_PROCESSOR)
        changer = ForeignTableJoinProcessorSupplier(store_name, self._key_schema)
        change = VersionAwareProcessorNode(ProcessorParameters(changer, change_name, [store]))
        builder.add_graph_node(right._graph_node, change)
        return [lookup, change]

    def resolve(self, answers: list[GraphNode], joiner: Callable[[Any, Any, Any], Any]) -> tuple[GraphNode, frozenset[str]]:
        builder, left = self._builder, self._left
        topic = self._name("-subscription-response", naming.FK_SUBSCRIPTION_RESPONSE) + _TOPIC_SUFFIX
        self._topology.add_internal_topic(topic, InternalTopicProperties())
        response_serde = SubscriptionResponseWrapperSerde(self._right._value_serde)
        partitioner = self._joined.partitioner
        sink = StreamSinkNode(
            self._name("-subscription-response-sink", naming.TABLE_SINK),
            topic,
            left._key_serde,
            response_serde,
            RespondToPrimaryPartition() if partitioner is None else KeyPartitioner(partitioner),
        )
        builder.add_graph_node(answers, sink)
        source = StreamSourceNode(
            self._name("-subscription-response-source", naming.TABLE_SOURCE),
            [topic],
            SourceOptions(left._key_serde, response_serde),
        )
        builder.add_graph_node(sink, source)
        sources = left._source_nodes | {source.node_name}
        self._topology.copartition_sources(sources)
        left_values = left._parent.value_getter_supplier()
        supplier = ResponseJoinProcessorSupplier(
            left_values, self._left_serializer, self._value_hash_topic, joiner, self._left_join
        )
        name = self._name("-subscription-response-resolver", naming.FK_RESPONSE_RESOLVER)
        node = ProcessorToStateConnectorNode(ProcessorParameters(supplier, name), left_values.store_names)
        builder.add_graph_node(source, node)
        return node, sources

    def keep(
        self, resolved: GraphNode, sources: frozenset[str], materialized: Materialized[Any, Any], joiner: Callable[..., Any]
    ) -> ktable.KTable[Any, Any]:
        builder, key_serde = self._builder, self._left._key_serde
        name = self._name("-result", naming.FK_OUTPUT)
        store = MaterializedStore(materialized, builder.names, naming.FK_OUTPUT, builder.config)
        store.default_key_serde(key_serde)
        store.default_value_serde(guess_value(joiner))
        supplier = KTableSource(store.store_name, store.queryable_store_name)
        node = ProcessorGraphNode(ktable.source_parameters(supplier, name, store))
        node.is_output_versioned = store.is_versioned
        builder.add_graph_node(resolved, node)
        return ktable.KTable(name, key_serde, store.value_serde, sources, store.store_name, supplier, node, builder)
