"""`KGroupedTable`: rows of a table grouped by a new key, ready to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl import ktable
from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.arguments import required
from penstock.dsl.options import Grouped, Materialized, as_materialized
from penstock.dsl.typevars import VR, K, V
from penstock.graph import naming
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode
from penstock.graph.repartition import GroupedTableRepartitionNode
from penstock.operators import KTableAggregate, KTableReduce
from penstock.operators.functions import count_aggregator, count_initializer, count_subtractor
from penstock.serdes.guessed import guess_value
from penstock.serdes.serde import Serdes


class KGroupedTable(AbstractStream[K, V]):
    """Made by `KTable.group_by`.

    A change of a row takes its old value out of the group it was in before it adds the new one to the group it is in
    now, so aggregations need a subtractor beside the adder.
    """

    def __init__(
        self,
        name: str,
        source_nodes: frozenset[str],
        grouped: Grouped[K, V],
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, grouped.key_serde, grouped.value_serde, source_nodes, graph_node, builder)
        self._given_name = grouped.name
        self._repartition_node: GroupedTableRepartitionNode | None = None

    def count(self, materialized: Materialized[K, int] | str | None = None, *, name: str | None = None) -> ktable.KTable[K, int]:
        """How many rows each group has."""
        store = self._store(as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=Serdes.long()))
        store.default_value_serde(Serdes.long())
        supplier = KTableAggregate(store.store_name, count_initializer, count_aggregator, count_subtractor)
        return self._aggregate(supplier, naming.TABLE_AGGREGATE, store, name)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, V]:
        """All values of each group combined into one: `adder(result, new value)`, `subtractor(result, old value)`."""
        required(adder, "the adder", "aggregate", "value")
        required(subtractor, "the subtractor", "aggregate", "value")
        store = self._store(
            as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=self._value_serde)
        )
        store.default_value_serde(self._value_serde)
        return self._aggregate(KTableReduce(store.store_name, adder, subtractor), naming.TABLE_REDUCE, store, name)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        adder: Callable[[K, V, VR], VR],
        subtractor: Callable[[K, V, VR], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]:
        """All rows of each group aggregated: `adder(key, new value, result)`, `subtractor(key, old value, result)`."""
        required(initializer, "the initializer")
        required(adder, "the adder", "key", "value", "aggregate")
        required(subtractor, "the subtractor", "key", "value", "aggregate")
        given: Materialized[K, VR] = as_materialized(materialized) or Materialized(key_serde=self._key_serde)
        store = self._store(given)
        store.default_value_serde(guess_value(adder) or guess_value(initializer))
        supplier = KTableAggregate(store.store_name, initializer, adder, subtractor)
        return self._aggregate(supplier, naming.TABLE_AGGREGATE, store, name)

    def _store(self, materialized: Materialized[Any, Any]) -> MaterializedStore:
        # All three use the aggregation's prefix for a generated store name.
        store = MaterializedStore(materialized, self._builder.names, naming.TABLE_AGGREGATE, self._builder.config)
        store.default_key_serde(self._key_serde)
        return store

    def _aggregate(self, supplier: Any, prefix: str, store: MaterializedStore, name: str | None) -> ktable.KTable[Any, Any]:
        names, builder, named = self._builder.names, self._builder, Named(name)
        sink_name = named.suffixed_or_generate("-sink", names, naming.STREAM_SINK)
        source_name = named.suffixed_or_generate("-source", names, naming.STREAM_SOURCE)
        node_name = named.or_generate(names, prefix)
        if self._repartition_node is None or self._given_name is None:
            topic = (self._given_name or store.store_name) + naming.REPARTITION_TOPIC_SUFFIX
            self._repartition_node = GroupedTableRepartitionNode(
                source_name, sink_name, topic, self._key_serde, self._value_serde
            )
        builder.add_graph_node(self._graph_node, self._repartition_node)
        node = ProcessorGraphNode(ProcessorParameters(supplier, node_name, [KeyValueStoreMaterializer(store)]))
        node.is_output_versioned = store.is_versioned
        builder.add_graph_node(self._repartition_node, node)
        return ktable.KTable(
            node_name,
            store.key_serde,
            store.value_serde,
            frozenset([source_name]),
            store.queryable_store_name,
            supplier,
            node,
            builder,
        )
