"""Joins of two streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl import kstream
from penstock.dsl.options import StreamJoined, with_guesses
from penstock.graph import naming
from penstock.graph.dsl_stores import DslStoreSuppliers, configured_dsl_store_suppliers, resolve_dsl_store_suppliers
from penstock.graph.join_nodes import StreamStreamJoinNode
from penstock.graph.join_stores import (
    OuterStreamJoinStoreBuilder,
    StreamJoinedStoreBuilder,
    check_unique_store_names,
    outer_join_store_name,
    supplied_join_store,
)
from penstock.graph.naming import Named
from penstock.graph.node import ProcessorParameters
from penstock.graph.processors import WindowedStreamProcessorNode
from penstock.operators import (
    KStreamJoinWindow,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    KStreamKStreamSelfJoin,
    PassThrough,
    TimeTrackerSupplier,
)
from penstock.operators.functions import ReversedJoiner
from penstock.serdes.guessed import guess_value
from penstock.state.store import StoreBuilder
from penstock.windows import JoinWindows

Joiner = Callable[[Any, Any, Any], Any]


def join_streams(
    this: kstream.KStream[Any, Any],
    other: kstream.KStream[Any, Any],
    joiner: Joiner,
    windows: JoinWindows,
    joined: StreamJoined[Any, Any, Any],
    left_outer: bool,
    right_outer: bool,
) -> kstream.KStream[Any, Any]:
    """Join two streams, repartitioning each side first whose key was changed."""
    named = Named(joined.name)
    if this._repartition_required:
        this = this._repartition_for_join(
            named.suffixed_or("-left", this._name), joined.key_serde, joined.value_serde, joined.name is not None
        )
    if other._repartition_required:
        other = other._repartition_for_join(
            named.suffixed_or("-right", other._name), joined.key_serde, joined.other_value_serde, joined.name is not None
        )
    # For the stores alone: what is repartitioned has had the serdes of its stream.
    joined = with_guesses(joined, this._key_serde or other._key_serde, this._value_serde, other._value_serde)
    return _StreamStreamJoin(this, other, windows, joined, left_outer, right_outer).build(joiner)


class _StreamStreamJoin:
    """The names, the stores and the nodes of one join."""

    def __init__(
        self,
        this: kstream.KStream[Any, Any],
        other: kstream.KStream[Any, Any],
        windows: JoinWindows,
        joined: StreamJoined[Any, Any, Any],
        left_outer: bool,
        right_outer: bool,
    ) -> None:
        self._this, self._other = this, other
        self._windows = windows
        self._joined = joined
        self._left_outer, self._right_outer = left_outer, right_outer
        self._builder = this._builder
        named, names = Named(joined.name), this._builder.names
        this_suffix = "-outer-this-join" if right_outer else "-this-join"
        other_suffix = "-outer-other-join" if left_outer else "-other-join"
        self._this_windowed_name = named.suffixed_or_generate("-this-windowed", names, naming.STREAM_WINDOWED)
        self._other_windowed_name = named.suffixed_or_generate("-other-windowed", names, naming.STREAM_WINDOWED)
        this_generated = names.new_processor_name(naming.STREAM_OUTERTHIS if right_outer else naming.STREAM_JOINTHIS)
        other_generated = names.new_processor_name(naming.STREAM_OUTEROTHER if left_outer else naming.STREAM_JOINOTHER)
        self._this_name = named.suffixed_or(this_suffix, this_generated)
        self._other_name = named.suffixed_or(other_suffix, other_generated)
        self._merge_name = named.suffixed_or_generate("-merge", names, naming.STREAM_MERGE)
        check_unique_store_names(joined.this_store_supplier, joined.other_store_supplier)
        stores = _JoinStores(this, joined, windows)
        self._this_store = stores.window_store(
            joined.this_store_supplier, _store_base(joined, this_suffix, this_generated), joined.value_serde
        )
        self._other_store = stores.window_store(
            joined.other_store_supplier, _store_base(joined, other_suffix, other_generated), joined.other_value_serde
        )
        waits = left_outer and not windows.emits_eagerly
        self._outer_stores = [stores.outer_store(this_generated, right_outer)] if waits else []

    def build(self, joiner: Joiner) -> kstream.KStream[Any, Any]:
        """Add the nodes to the graph."""
        this, other, builder = self._this, self._other, self._builder
        all_sources = this._ensure_copartition_with([other])
        self._keep_records(this, self._this_windowed_name, self._this_store)
        self._keep_records(other, self._other_windowed_name, self._other_store)
        if self._joined.store_name is None:
            for store in (self._this_store, self._other_store, *self._outer_stores):
                builder.names.note_implicit_store(store.name, store.logging_enabled)
        node = self._join_node(joiner)
        builder.add_graph_node([this._graph_node, other._graph_node], node)
        # Neither side's key serde is known to fit the other's keys.
        key_serde = self._joined.key_serde
        return this._derive(node, key_serde, guess_value(joiner), repartition_required=False, source_nodes=all_sources)

    def _keep_records(self, side: kstream.KStream[Any, Any], name: str, store: StoreBuilder[Any]) -> None:
        parameters = ProcessorParameters(KStreamJoinWindow(store.name), name, [store])
        self._builder.add_graph_node(side._graph_node, WindowedStreamProcessorNode(parameters))

    def _join_node(self, joiner: Joiner) -> StreamStreamJoinNode:
        windows, this_store, other_store = self._windows, self._this_store, self._other_store
        tracker = TimeTrackerSupplier()
        outer_name = self._outer_stores[0].name if self._outer_stores else None
        join_this = KStreamKStreamJoinLeftSide(windows, joiner, self._left_outer, tracker, other_store.name, outer_name)
        join_other = KStreamKStreamJoinRightSide(
            windows, ReversedJoiner(joiner), self._right_outer, tracker, this_store.name, outer_name
        )
        self_join = KStreamKStreamSelfJoin(this_store.name, windows, joiner, windows.size + windows.grace_period_ms)
        node = StreamStreamJoinNode(
            ProcessorParameters(join_this, self._this_name, [other_store, *self._outer_stores]),
            ProcessorParameters(join_other, self._other_name, [this_store, *self._outer_stores]),
            ProcessorParameters(PassThrough(), self._merge_name),
            ProcessorParameters(self_join, self._merge_name, [this_store]),
            self._this_windowed_name,
            self._other_windowed_name,
        )
        node.is_null_key_relaxed_join = self._left_outer or self._right_outer
        return node


def _store_base(joined: StreamJoined[Any, Any, Any], suffix: str, generated: str) -> str:
    return generated if joined.store_name is None else joined.store_name + suffix


class _JoinStores:
    """Makes the stores of one join."""

    def __init__(self, stream: kstream.KStream[Any, Any], joined: StreamJoined[Any, Any, Any], windows: JoinWindows) -> None:
        self._joined = joined
        self._windows = windows
        self._given: DslStoreSuppliers | None = None
        if joined.store_type is not None:
            self._given = resolve_dsl_store_suppliers(joined.store_type, "store_type")
        self._suppliers = self._given or configured_dsl_store_suppliers(stream._builder.config)
        self._topic_config = {key: str(value) for key, value in joined.topic_config.items()}

    def window_store(self, supplier: Any, base_name: str, value_serde: Any) -> StoreBuilder[Any]:
        joined = self._joined
        if supplier is not None:
            return supplied_join_store(supplier, self._windows, joined.key_serde, value_serde)
        return StreamJoinedStoreBuilder(
            base_name, self._windows, joined.key_serde, value_serde, self._suppliers, joined.logging, self._topic_config
        )

    def outer_store(self, this_generated: str, right_outer: bool) -> StoreBuilder[Any]:
        joined = self._joined
        name = outer_join_store_name(joined.store_name, joined.this_store_supplier, this_generated, right_outer)
        # A supplied window store decides where this one is kept before the configured default does, not before `store_type`.
        supplied = joined.this_store_supplier if self._given is None else None
        return OuterStreamJoinStoreBuilder(
            name,
            joined.key_serde,
            joined.value_serde,
            joined.other_value_serde,
            self._suppliers,
            supplied,
            joined.logging,
            self._topic_config,
        )
