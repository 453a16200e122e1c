"""`CogroupedKStream`: several grouped streams aggregated into one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from penstock.dsl import grouped_stream as grouped_stream_module
from penstock.dsl import ktable
from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.arguments import required
from penstock.dsl.cogroup_builder import CogroupedStreamAggregateBuilder, GroupPatterns
from penstock.dsl.options import Materialized, as_materialized
from penstock.dsl.typevars import V1, K, V
from penstock.dsl.windowing import SessionWindowing, Windowing, time_windowing
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.naming import COGROUP_AGGREGATE
from penstock.graph.node import GraphNode
from penstock.operators import KStreamAggregate
from penstock.serdes.guessed import guess, guess_value
from penstock.user_code import misuse
from penstock.windows import EmitStrategy, SessionWindows, SlidingWindows, Windowed, Windows


class CogroupedKStream(AbstractStream[K, V]):
    """Grouped streams of one key type, each with an aggregator of its own into the same result.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks, buys = (builder.stream(topic).group_by_key() for topic in ("clicks", "buys"))
    >>> clicks.cogroup(lambda k, v, total: total + 1).cogroup(buys, lambda k, v, total: total + 10).aggregate(lambda: 0)
    KTable('COGROUPKSTREAM-MERGE-0000000005')
    """

    def __init__(self, name: str, source_nodes: frozenset[str], graph_node: GraphNode, builder: InternalStreamsBuilder) -> None:
        super().__init__(name, None, None, source_nodes, graph_node, builder)
        self._groups: dict[grouped_stream_module.KGroupedStream[Any, Any], Callable[[Any, Any, Any], Any]] = {}
        self._aggregate_builder = CogroupedStreamAggregateBuilder(builder)

    def cogroup(
        self, grouped_stream: grouped_stream_module.KGroupedStream[K, V1], aggregator: Callable[[K, V1, V], V]
    ) -> CogroupedKStream[K, V]:
        """One more grouped stream, with its aggregator."""
        if not isinstance(grouped_stream, grouped_stream_module.KGroupedStream):
            raise misuse(
                f"cogroup() takes a grouped stream and its aggregator, got {grouped_stream!r}: write "
                "cogroup(stream.group_by_key(), lambda key, value, aggregate: …)"
            )
        required(aggregator, "the aggregator", "key", "value", "aggregate")
        self._groups[grouped_stream] = aggregator
        return self

    def aggregate(
        self,
        initializer: Callable[[], V],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, V]:
        """The result of each key over all streams."""
        required(initializer, "the initializer")
        builder = self._builder
        given: Materialized[K, V] = as_materialized(materialized) or Materialized()
        store = MaterializedStore(given, builder.names, COGROUP_AGGREGATE, builder.config)
        _guess_serdes(store, self._groups, initializer)
        return self._aggregate_builder.build(
            self._groups,
            name,
            store,
            KeyValueStoreMaterializer(store),
            lambda aggregator: KStreamAggregate(store.store_name, initializer, aggregator),
            store.key_serde,
        )

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedCogroupedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> Any:
        """The records of each key further divided by time."""
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self, SessionWindowing(windows))
        return TimeWindowedCogroupedKStream(self, time_windowing(windows))


class _WindowedCogrouped(AbstractStream[K, V]):
    def __init__(self, cogrouped: CogroupedKStream[K, V], windowing: Windowing) -> None:
        super().__init__(cogrouped._name, None, None, cogrouped._source_nodes, cogrouped._graph_node, cogrouped._builder)
        self._groups = cogrouped._groups
        self._aggregate_builder = cogrouped._aggregate_builder
        self._windowing = windowing

    def _aggregate(
        self,
        initializer: Callable[[], Any],
        merger: Callable[[Any, Any, Any], Any] | None,
        materialized: Materialized[Any, Any] | str | None,
        name: str | None,
    ) -> ktable.KTable[Any, Any]:
        required(initializer, "the initializer")
        builder, windowing, emit = self._builder, self._windowing, EmitStrategy.on_window_update()
        store = MaterializedStore(
            as_materialized(materialized) or Materialized(), builder.names, COGROUP_AGGREGATE, builder.config
        )
        _guess_serdes(store, self._groups, initializer)
        return self._aggregate_builder.build(
            self._groups,
            name,
            store,
            windowing.store(store, emit),
            lambda aggregator: windowing.aggregate(store.store_name, emit, initializer, aggregator, merger),
            windowing.key_serde(store.key_serde),
            windowing.grace_period_ms,
        )


class TimeWindowedCogroupedKStream(_WindowedCogrouped[K, V]):
    """Cogrouped streams with time windows or sliding windows."""

    def aggregate(
        self,
        initializer: Callable[[], V],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[Windowed[K], V]:
        """The result of each key and window over all streams."""
        return self._aggregate(initializer, None, materialized, name)


class SessionWindowedCogroupedKStream(_WindowedCogrouped[K, V]):
    """Cogrouped streams with sessions."""

    def aggregate(
        self,
        initializer: Callable[[], V],
        merger: Callable[[K, V, V], V],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[Windowed[K], V]:
        """The result of each session over all streams; `merger(key, first, second)` combines sessions that meet."""
        required(merger, "the merger", "key", "aggregate", "other_aggregate")
        return self._aggregate(initializer, merger, materialized, name)


def _guess_serdes(store: MaterializedStore, groups: GroupPatterns, initializer: Callable[[], Any]) -> None:
    """The keys of the first group, and what an aggregator or the initializer is annotated to return."""
    store.default_key_serde(next((guess(group._key_serde, "key") for group in groups if group._key_serde is not None), None))
    guessed = (guess_value(function) for function in (*groups.values(), initializer))
    store.default_value_serde(next((serde for serde in guessed if serde is not None), None))
