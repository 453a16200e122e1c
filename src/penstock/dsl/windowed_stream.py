"""What aggregations over time windows and over sessions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.dsl import ktable
from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.aggregate_builder import GroupedStreamAggregateBuilder
from penstock.dsl.options import Materialized, as_materialized
from penstock.dsl.typevars import K, V
from penstock.dsl.windowing import Windowing
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import MaterializedStore
from penstock.graph.naming import STREAM_AGGREGATE, Named
from penstock.graph.node import GraphNode
from penstock.windows import EmitStrategy

W = TypeVar("W", bound="WindowedStream[Any, Any]")


class WindowedStream(AbstractStream[K, V]):
    """A grouped stream with windows of one kind."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
        windowing: Windowing,
        aggregate_builder: GroupedStreamAggregateBuilder,
    ) -> None:
        super().__init__(name, key_serde, value_serde, source_nodes, graph_node, builder)
        self._windowing = windowing
        self._aggregate_builder = aggregate_builder
        self._emit_strategy = EmitStrategy.on_window_update()

    def emit_strategy(self: W, emit_strategy: EmitStrategy) -> W:
        """Emit at every update of a window (the default), or once when it closes."""
        self._windowing.check_emit_strategy(emit_strategy)
        self._emit_strategy = emit_strategy
        return self

    def _burn_index_of_count(self, materialized: Materialized[Any, Any] | str | None) -> None:
        materialized = as_materialized(materialized)
        if materialized is None or not self._windowing.count_uses_extra_index:
            return
        if materialized.store_name is None and materialized.supplier is None:
            self._builder.names.new_store_name(STREAM_AGGREGATE)

    def _aggregate(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized[Any, Any],
        value_serde: Any,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None = None,
    ) -> ktable.KTable[Any, Any]:
        names = self._builder.names
        store = MaterializedStore(materialized, names, prefix, self._builder.config)
        store.default_key_serde(self._key_serde)
        store.default_value_serde(value_serde)
        node_name = Named(name).or_generate(names, prefix)
        builder = self._windowing.store(store, self._emit_strategy)
        supplier = self._windowing.aggregate(store.store_name, self._emit_strategy, initializer, aggregator, merger)
        return self._aggregate_builder.build(
            node_name,
            supplier,
            store,
            builder,
            self._windowing.key_serde(store.key_serde),
            self._windowing.grace_period_ms,
        )
