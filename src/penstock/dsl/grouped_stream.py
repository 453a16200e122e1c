"""`KGroupedStream`: records grouped by key, ready to be aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from penstock.dsl import cogrouped, ktable, session_windowed, time_windowed
from penstock.dsl.abstract_stream import AbstractStream
from penstock.dsl.aggregate_builder import GroupedStreamAggregateBuilder
from penstock.dsl.arguments import required
from penstock.dsl.options import Grouped, Materialized, as_materialized
from penstock.dsl.typevars import VR, K, V
from penstock.dsl.windowing import SessionWindowing, time_windowing
from penstock.graph import naming
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.node import GraphNode
from penstock.operators import KStreamAggregate, KStreamReduce
from penstock.operators.functions import count_aggregator, count_initializer
from penstock.serdes.guessed import guess_value
from penstock.serdes.serde import Serdes
from penstock.windows import SessionWindows, SlidingWindows, Windows


class KGroupedStream(AbstractStream[K, V]):
    """A stream whose records are grouped by key; made by `KStream.group_by` and `group_by_key`.

    Records without a key, and without a value, are left out of aggregations without windows.
    """

    def __init__(
        self,
        name: str,
        source_nodes: frozenset[str],
        grouped: Grouped[K, V],
        repartition_required: bool,
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, grouped.key_serde, grouped.value_serde, source_nodes, graph_node, builder)
        self._repartition_required = repartition_required
        self._given_name = grouped.name
        self._aggregate_builder = GroupedStreamAggregateBuilder(
            builder, grouped, repartition_required, source_nodes, name, graph_node
        )

    def count(self, materialized: Materialized[K, int] | str | None = None, *, name: str | None = None) -> ktable.KTable[K, int]:
        """How many records each key has had.

        >>> from penstock import Consumed, Materialized, Serdes, StreamsBuilder, TopologyTestDriver
        >>> builder, text = StreamsBuilder(), Serdes.string()
        >>> words = builder.stream("words", Consumed(text, text))
        >>> counts = words.group_by_key().count(Materialized("counts"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("words", text, text).pipe_key_values([("a", ""), ("b", ""), ("a", "")])
        ...     driver.get_key_value_store("counts").get("a")
        2
        """
        names = self._builder.names
        materialized = as_materialized(materialized)
        if materialized is not None and _is_unnamed(materialized):
            # An index that earlier versions used up; kept so that names stay as they were.
            names.new_store_name(naming.STREAM_AGGREGATE)
        given = materialized or Materialized(key_serde=self._key_serde, value_serde=Serdes.long())
        store = MaterializedStore(given, names, naming.STREAM_AGGREGATE, self._builder.config)
        store.default_key_serde(self._key_serde)
        store.default_value_serde(Serdes.long())
        node_name = Named(name).or_generate(names, naming.STREAM_AGGREGATE)
        supplier = KStreamAggregate(store.store_name, count_initializer, count_aggregator)
        return self._build(node_name, supplier, store)

    def reduce(
        self, reducer: Callable[[V, V], V], materialized: Materialized[K, V] | str | None = None, *, name: str | None = None
    ) -> ktable.KTable[K, V]:
        """All values of each key combined into one: `reducer(result so far, value)`; the first value starts."""
        required(reducer, "the reducer", "aggregate", "value")
        names = self._builder.names
        given = as_materialized(materialized) or Materialized(key_serde=self._key_serde, value_serde=self._value_serde)
        store = MaterializedStore(given, names, naming.STREAM_REDUCE, self._builder.config)
        store.default_key_serde(self._key_serde)
        store.default_value_serde(self._value_serde)
        node_name = Named(name).or_generate(names, naming.STREAM_REDUCE)
        return self._build(node_name, KStreamReduce(store.store_name, reducer), store)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> ktable.KTable[K, VR]:
        """All records of each key aggregated: `aggregator(key, value, result so far)`, started by `initializer()`."""
        required(initializer, "the initializer")
        required(aggregator, "the aggregator", "key", "value", "aggregate")
        names = self._builder.names
        given: Materialized[K, VR] = as_materialized(materialized) or Materialized(key_serde=self._key_serde)
        store = MaterializedStore(given, names, naming.STREAM_AGGREGATE, self._builder.config)
        store.default_key_serde(self._key_serde)
        store.default_value_serde(guess_value(aggregator) or guess_value(initializer))
        node_name = Named(name).or_generate(names, naming.STREAM_AGGREGATE)
        return self._build(node_name, KStreamAggregate(store.store_name, initializer, aggregator), store)

    def _build(self, name: str, supplier: Any, store: MaterializedStore) -> ktable.KTable[Any, Any]:
        builder = KeyValueStoreMaterializer(store)
        return self._aggregate_builder.build(name, supplier, store, builder, store.key_serde)

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> time_windowed.TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> session_windowed.SessionWindowedKStream[K, V]: ...

    def windowed_by(self, windows: Any) -> Any:
        """The records of each key further divided by time."""
        arguments = (self._name, self._key_serde, self._value_serde, self._source_nodes, self._graph_node, self._builder)
        if isinstance(windows, SessionWindows):
            return session_windowed.SessionWindowedKStream(*arguments, SessionWindowing(windows), self._aggregate_builder)
        return time_windowed.TimeWindowedKStream(*arguments, time_windowing(windows), self._aggregate_builder)

    def cogroup(self, aggregator: Callable[[K, V, VR], VR]) -> cogrouped.CogroupedKStream[K, VR]:
        """The start of an aggregation over several grouped streams, see `CogroupedKStream`."""
        cogroup: cogrouped.CogroupedKStream[K, VR] = cogrouped.CogroupedKStream(
            self._name, self._source_nodes, self._graph_node, self._builder
        )
        return cogroup.cogroup(self, aggregator)


def _is_unnamed(materialized: Materialized[Any, Any]) -> bool:
    return materialized.store_name is None and materialized.supplier is None
