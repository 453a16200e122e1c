"""`TimeWindowedKStream`: records grouped by key and by time windows or sliding windows."""

from __future__ import annotations

from collections.abc import Callable

from penstock.dsl import ktable
from penstock.dsl.arguments import required
from penstock.dsl.options import Materialized, as_materialized
from penstock.dsl.typevars import VR, K, V
from penstock.dsl.windowed_stream import WindowedStream
from penstock.graph.naming import STREAM_AGGREGATE, STREAM_REDUCE
from penstock.operators.functions import ReduceAggregator, count_aggregator, count_initializer, reduce_initializer
from penstock.serdes.guessed import guess_value
from penstock.serdes.serde import Serdes
from penstock.windows import Windowed


class TimeWindowedKStream(WindowedStream[K, V]):
    """Made by `KGroupedStream.windowed_by`; its aggregations give tables whose keys are `Windowed`."""

    def count(
        self, materialized: Materialized[K, int] | str | None = None, *, name: str | None = None
    ) -> ktable.KTable[Windowed[K], int]:
        """How many records each key has had in each window.

        >>> from datetime import timedelta
        >>> from penstock import Consumed, Materialized, Serdes, StreamsBuilder, TimeWindows, TopologyTestDriver
        >>> builder, text = StreamsBuilder(), Serdes.string()
        >>> grouped = builder.stream("clicks", Consumed(text, text)).group_by_key()
        >>> windows = TimeWindows(timedelta(seconds=10), grace=timedelta(0))
        >>> counts = grouped.windowed_by(windows).count(Materialized("per-window"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     clicks = driver.create_input_topic("clicks", text, text)
        ...     for time in (1, 3, 10_002):
        ...         clicks.pipe_input("user", "click", timestamp=time)
        ...     list(driver.get_window_store("per-window").fetch_range("user", 0, 60_000))
        [(0, 2), (10000, 1)]
        """
        self._burn_index_of_count(materialized)
        given = as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=Serdes.long())
        return self._aggregate(STREAM_AGGREGATE, name, given, Serdes.long(), count_initializer, count_aggregator)

    def reduce(
        self, reducer: Callable[[V, V], V], materialized: Materialized[K, V] | str | None = None, *, name: str | None = None
    ) -> ktable.KTable[Windowed[K], V]:
        """All values of each key and window combined into one: `reducer(result so far, value)`."""
        required(reducer, "the reducer", "aggregate", "value")
        given = as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=self._value_serde)
        return self._aggregate(STREAM_REDUCE, name, given, self._value_serde, reduce_initializer, ReduceAggregator(reducer))

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[Windowed[K], VR]:
        """All records of each key and window aggregated: `aggregator(key, value, result so far)`."""
        required(initializer, "the initializer")
        required(aggregator, "the aggregator", "key", "value", "aggregate")
        given: Materialized[K, VR] = as_materialized(materialized) or Materialized(key_serde=self._key_serde)
        value_serde = guess_value(aggregator) or guess_value(initializer)
        return self._aggregate(STREAM_AGGREGATE, name, given, value_serde, initializer, aggregator)
