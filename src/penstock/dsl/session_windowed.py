"""`SessionWindowedKStream`: records grouped by key and by sessions."""

from __future__ import annotations

from collections.abc import Callable

from penstock.dsl import ktable
from penstock.dsl.arguments import required
from penstock.dsl.options import Materialized, as_materialized
from penstock.dsl.typevars import VR, K, V
from penstock.dsl.windowed_stream import WindowedStream
from penstock.graph.naming import STREAM_AGGREGATE, STREAM_REDUCE
from penstock.operators.functions import (
    ReduceAggregator,
    ReduceMerger,
    count_aggregator,
    count_initializer,
    count_merger,
    reduce_initializer,
)
from penstock.serdes.guessed import guess_value
from penstock.serdes.serde import Serdes
from penstock.windows import Windowed


class SessionWindowedKStream(WindowedStream[K, V]):
    """Made by `KGroupedStream.windowed_by(SessionWindows(…))`.

    A record may join two sessions into one: the results of both are deleted, and that of the merged one is emitted.
    """

    def count(
        self, materialized: Materialized[K, int] | str | None = None, *, name: str | None = None
    ) -> ktable.KTable[Windowed[K], int]:
        """How many records each session has."""
        self._burn_index_of_count(materialized)
        given = as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=Serdes.long())
        return self._aggregate(STREAM_AGGREGATE, name, given, Serdes.long(), count_initializer, count_aggregator, count_merger)

    def reduce(
        self, reducer: Callable[[V, V], V], materialized: Materialized[K, V] | str | None = None, *, name: str | None = None
    ) -> ktable.KTable[Windowed[K], V]:
        """All values of each session combined into one: `reducer(result so far, value)`."""
        required(reducer, "the reducer", "aggregate", "value")
        given = as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=self._value_serde)
        aggregator = ReduceAggregator(reducer)
        return self._aggregate(
            STREAM_REDUCE, name, given, self._value_serde, reduce_initializer, aggregator, ReduceMerger(aggregator)
        )

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR],
        merger: Callable[[K, VR, VR], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[Windowed[K], VR]:
        """All records of each session aggregated; `merger(key, first, second)` combines sessions that meet."""
        required(initializer, "the initializer")
        required(aggregator, "the aggregator", "key", "value", "aggregate")
        required(merger, "the merger", "key", "aggregate", "other_aggregate")
        given: Materialized[K, VR] = as_materialized(materialized) or Materialized(key_serde=self._key_serde)
        value_serde = guess_value(aggregator) or guess_value(initializer)
        return self._aggregate(STREAM_AGGREGATE, name, given, value_serde, initializer, aggregator, merger)
