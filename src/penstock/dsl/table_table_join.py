"""Joins of two tables by their key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl import ktable
from penstock.dsl.options import Materialized, as_materialized
from penstock.graph import naming
from penstock.graph.join_nodes import TableTableJoinNode
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.node import ProcessorParameters
from penstock.operators import (
    KTableKTableInnerJoin,
    KTableKTableJoinMerger,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)
from penstock.operators.functions import ReversedJoiner
from penstock.serdes.guessed import guess_value
from penstock.state.store import StoreBuilder


def join_tables(
    this: ktable.KTable[Any, Any],
    other: ktable.KTable[Any, Any],
    joiner: Callable[[Any, Any, Any], Any],
    name: str | None,
    materialized: Materialized[Any, Any] | str | None,
    left_outer: bool,
    right_outer: bool,
) -> ktable.KTable[Any, Any]:
    """Join two tables of the same key; each side looks up the other whenever it changes."""
    builder, names = this._builder, this._builder.names
    # Options without a name get one: unlike filter and map_values, a join with options is always materialized.
    given = as_materialized(materialized)
    store = None if given is None else MaterializedStore(given, names, naming.TABLE_MERGE, builder.config)
    named = Named(name)
    merge_name = named.or_generate(names, naming.TABLE_MERGE)
    all_sources = this._ensure_copartition_with([other])
    if left_outer:
        this._parent.enable_sending_old_values(True)
    if right_outer:
        other._parent.enable_sending_old_values(True)
    key_serde, value_serde, store_name = this._key_serde, guess_value(joiner), None
    stores: list[StoreBuilder[Any]] = []
    if store is not None:
        store.default_key_serde(this._key_serde)
        store.default_value_serde(value_serde)
        key_serde, value_serde, store_name = store.key_serde, store.value_serde, store.store_name
        stores.append(KeyValueStoreMaterializer(store))
    this_side: Any
    other_side: Any
    if not left_outer:
        this_side, other_side = KTableKTableInnerJoin, KTableKTableInnerJoin
    elif not right_outer:
        this_side, other_side = KTableKTableLeftJoin, KTableKTableRightJoin
    else:
        this_side, other_side = KTableKTableOuterJoin, KTableKTableOuterJoin
    join_this = this_side(this._parent, other._parent, joiner)
    join_other = other_side(other._parent, this._parent, ReversedJoiner(joiner))
    this_name = named.suffixed_or_generate("-join-this", names, naming.TABLE_JOINTHIS)
    other_name = named.suffixed_or_generate("-join-other", names, naming.TABLE_JOINOTHER)
    merger = KTableKTableJoinMerger(join_this, join_other, store_name)
    node = TableTableJoinNode(
        ProcessorParameters(join_this, this_name),
        ProcessorParameters(join_other, other_name),
        ProcessorParameters(merger, merge_name, stores),
        this._name,
        other._name,
        this._parent.value_getter_supplier().store_names,
        other._parent.value_getter_supplier().store_names,
    )
    node.is_output_versioned = store is not None and store.is_versioned
    builder.add_graph_node(this._graph_node, node)
    builder.add_graph_node(other._graph_node, node)
    return ktable.KTable(merge_name, key_serde, value_serde, all_sources, store_name, merger, node, builder)
