"""Joins of a stream with a table and with a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl import global_ktable, kstream, ktable
from penstock.dsl.arguments import required
from penstock.dsl.options import Joined
from penstock.errors import TopologyError
from penstock.graph import naming
from penstock.graph.join_nodes import StreamTableJoinNode
from penstock.graph.naming import Named
from penstock.graph.node import ProcessorParameters
from penstock.operators import KStreamGlobalKTableJoin, KStreamKTableJoin
from penstock.serdes.guessed import guess_value
from penstock.state.buffers import RocksDBTimeOrderedKeyValueBufferBuilder
from penstock.state.store import StoreBuilder

Joiner = Callable[[Any, Any, Any], Any]


def join_table(
    stream: kstream.KStream[Any, Any],
    table: ktable.KTable[Any, Any],
    joiner: Joiner,
    joined: Joined[Any, Any, Any],
    left_join: bool,
) -> kstream.KStream[Any, Any]:
    """Join a stream with a table of the same key, repartitioning the stream first if its key was changed."""
    if stream._repartition_required:
        stream = stream._repartition_for_join(
            joined.name or stream._name, joined.key_serde, joined.value_serde, joined.name is not None
        )
    builder = stream._builder
    all_sources = stream._ensure_copartition_with([table])
    name = Named(joined.name).or_generate(builder.names, naming.STREAM_LEFTJOIN if left_join else naming.STREAM_JOIN)
    key_serde = stream._key_serde if joined.key_serde is None else joined.key_serde
    value_serde = stream._value_serde if joined.value_serde is None else joined.value_serde
    grace_ms = joined.grace_period_ms
    stores: list[StoreBuilder[Any]] = []
    if grace_ms is not None:
        if table._graph_node.is_output_versioned is False:
            raise TopologyError(
                f"the join {name} has a grace period, so its table must be versioned: materialize the table with "
                "Stores.persistent_versioned_key_value_store"
            )
        buffer_name = f"{name}-Buffer"
        stores.append(RocksDBTimeOrderedKeyValueBufferBuilder(buffer_name, key_serde, value_serde, grace_ms, name))
        if joined.name is None:
            builder.names.note_implicit_store(buffer_name, True)
    getters = table._parent.value_getter_supplier()
    supplier = KStreamKTableJoin(getters, joiner, left_join, grace_ms, stores[0].name if stores else None)
    node = StreamTableJoinNode(ProcessorParameters(supplier, name, stores), getters.store_names, grace_ms)
    node.is_null_key_relaxed_join = left_join
    builder.add_graph_node(stream._graph_node, node)
    return stream._derive(node, key_serde, guess_value(joiner), repartition_required=False, source_nodes=all_sources)


def join_global_table(
    stream: kstream.KStream[Any, Any],
    table: global_ktable.GlobalKTable[Any, Any],
    key_selector: Callable[[Any, Any], Any],
    joiner: Joiner,
    left_join: bool,
    name: str | None,
) -> kstream.KStream[Any, Any]:
    """Join a stream with a global table, which every task has in full: nothing is repartitioned."""
    required(key_selector, "the key selector", "key", "value")
    builder = stream._builder
    node_name = Named(name).or_generate(builder.names, naming.STREAM_LEFTJOIN)
    supplier = KStreamGlobalKTableJoin(table._value_getter_supplier, joiner, key_selector, left_join)
    node = StreamTableJoinNode(ProcessorParameters(supplier, node_name))
    node.is_null_key_relaxed_join = left_join
    builder.add_graph_node(stream._graph_node, node)
    return stream._derive(node, value_serde=guess_value(joiner))
