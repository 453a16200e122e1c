"""Which serdes an operator hands on, as in Kafka Streams: seen in the serializers of the sinks below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Grouped, Joined, Materialized, Produced, Repartitioned, StreamJoined
from penstock.serdes.guessed import GuessedSerializer
from penstock.serdes.serde import Serdes
from penstock.serdes.windowed import SessionWindowedSerializer, TimeWindowedSerializer, WindowedStreamPartitioner
from penstock.topology.specs import SinkSpec, SourceSpec
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows
from tests.unit.dsl.programs import (
    FixedPass,
    Pass,
    by_value,
    cat,
    empty,
    first,
    ignore,
    merge,
    pair,
    same,
    swap,
    take,
    values,
    yes,
)

KEY, VALUE, OTHER, LONG = Serdes.string(), Serdes.bytes(), Serdes.double(), Serdes.long()
K, V, X, L = KEY.serializer, VALUE.serializer, OTHER.serializer, LONG.serializer

STREAM: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "filter": (lambda s: s.filter(yes), K, V),
    "peek": (lambda s: s.peek(ignore), K, V),
    "map_values": (lambda s: s.map_values(same), K, None),
    "flat_map_values": (lambda s: s.flat_map_values(values), K, None),
    "map": (lambda s: s.map(pair), None, None),
    "map_batches": (lambda s: s.map_batches(same), None, None),
    "select_key": (lambda s: s.select_key(by_value), None, V),
    "merge": (lambda s: s.merge(s.filter(yes)), None, None),
    "process": (lambda s: s.process(Pass), None, None),
    "process_values": (lambda s: s.process_values(FixedPass), K, None),
    "branch": (lambda s: s.split("b").default_branch()["b0"], K, V),
    "repartition": (lambda s: s.repartition(), K, V),
    "repartition_with": (lambda s: s.repartition(Repartitioned(key_serde=OTHER)), X, V),
    "to_table": (lambda s: s.to_table().to_stream(), K, V),
    "to_table_with": (lambda s: s.to_table(Materialized(value_serde=OTHER)).to_stream(), K, X),
    "count": (lambda s: s.group_by_key().count().to_stream(), K, L),
    "count_with_key": (lambda s: s.group_by_key().count(Materialized(key_serde=OTHER)).to_stream(), X, L),
    "reduce": (lambda s: s.group_by_key().reduce(first).to_stream(), K, V),
    "aggregate": (lambda s: s.group_by_key().aggregate(empty, take).to_stream(), K, None),
    "aggregate_with": (lambda s: s.group_by_key().aggregate(empty, take, Materialized(None, None, OTHER)).to_stream(), K, X),
    "group_by": (lambda s: s.group_by(by_value).reduce(first).to_stream(), None, V),
    "group_by_with": (lambda s: s.group_by(by_value, Grouped(key_serde=OTHER)).reduce(first).to_stream(), X, None),
    "cogroup": (lambda s: s.group_by_key().cogroup(take).aggregate(empty).to_stream(), None, None),
    "stream_join": (lambda s: s.join(s.filter(yes), cat, JoinWindows(1, grace=0)), None, None),
    "stream_join_with": (lambda s: s.join(s.filter(yes), cat, JoinWindows(1, grace=0), StreamJoined(OTHER)), X, None),
    "table_join": (lambda s: s.join(s.filter(yes).to_table(), cat), K, None),
    "table_join_with": (lambda s: s.join(s.filter(yes).to_table(), cat, Joined(OTHER)), X, None),
}

TABLE: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "filter": (lambda t: t.filter(yes), K, V),
    "filter_with": (lambda t: t.filter(yes, Materialized("m", OTHER)), X, V),
    "map_values": (lambda t: t.map_values(same), K, None),
    "map_values_with": (lambda t: t.map_values(same, materialized=Materialized("m", None, OTHER)), K, X),
    "join": (lambda t: t.join(t.filter(yes), cat), K, None),
    "join_with": (lambda t: t.join(t.filter(yes), cat, Materialized("m", None, OTHER)), K, X),
    "foreign_key_join": (lambda t: t.join(t.filter(yes), cat, foreign_key=same), K, None),
    "group_by": (lambda t: t.group_by(swap).reduce(first, first), None, None),
    "group_by_with": (lambda t: t.group_by(swap, Grouped(None, OTHER, VALUE)).reduce(first, first), X, V),
    "group_by_count": (lambda t: t.group_by(swap, Grouped(None, OTHER)).count(), X, L),
}


def sink_of(builder: StreamsBuilder, topic: str) -> SinkSpec:
    nodes = builder.build().internal_topology_builder.registry.nodes.values()
    (sink,) = [node for node in nodes if isinstance(node, SinkSpec) and node.topic == topic]
    return sink


def given(sink: SinkSpec) -> tuple[Any, Any]:
    """What somebody has given; what is only guessed gives way to the default, as what is None."""
    halves = (sink.key_serializer, sink.value_serializer)
    key, value = (None if isinstance(half, GuessedSerializer) else half for half in halves)
    return key, value


@pytest.mark.parametrize("operator", STREAM)
def test_should_hand_on_the_serdes_of_a_stream(operator: str) -> None:
    apply, key, value = STREAM[operator]
    builder = StreamsBuilder()
    apply(builder.stream("in", Consumed(KEY, VALUE))).to("out")
    sink = sink_of(builder, "out")
    assert given(sink) == (key, value)


@pytest.mark.parametrize("operator", TABLE)
def test_should_hand_on_the_serdes_of_a_table(operator: str) -> None:
    apply, key, value = TABLE[operator]
    builder = StreamsBuilder()
    apply(builder.table("in", Consumed(KEY, VALUE))).to_stream().to("out")
    sink = sink_of(builder, "out")
    assert given(sink) == (key, value)


def test_should_prefer_the_serdes_of_produced() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(KEY, VALUE)).to("out", Produced(value_serde=OTHER))  # type: ignore[arg-type]
    sink = sink_of(builder, "out")
    assert (sink.key_serializer, sink.value_serializer) == (K, X)


def test_should_not_give_the_streams_key_serde_to_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(KEY, VALUE)).repartition(Repartitioned("r"))
    sink = sink_of(builder, "r-repartition")
    assert given(sink) == (None, V)


def test_should_prefer_the_serdes_of_consumed_for_a_table() -> None:
    builder = StreamsBuilder()
    builder.table("in", Consumed(value_serde=VALUE), Materialized("m", KEY, OTHER)).to_stream().to("out")  # type: ignore[arg-type]
    sink = sink_of(builder, "out")
    assert (sink.key_serializer, sink.value_serializer) == (None, V)


def test_should_read_a_table_with_the_serdes_of_materialized_where_there_is_no_consumed() -> None:
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized("m", KEY, OTHER)).to_stream().to("out")
    source = builder.build().internal_topology_builder.registry.nodes["KSTREAM-SOURCE-0000000000"]
    assert isinstance(source, SourceSpec)
    assert (source.key_deserializer, source.value_deserializer) == (KEY.deserializer, OTHER.deserializer)


@pytest.mark.parametrize(
    ("windows", "serializer"),
    [
        (TimeWindows(10, grace=0), TimeWindowedSerializer(K)),
        (SlidingWindows(10, grace=0), TimeWindowedSerializer(K)),
        (SessionWindows(10, grace=0), SessionWindowedSerializer(K)),
    ],
)
def test_should_wrap_the_key_serde_for_windows(windows: Any, serializer: Any) -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed(KEY, VALUE)).group_by_key().windowed_by(windows)
    windowed.count().to_stream().to("out")
    sink = sink_of(builder, "out")
    assert (sink.key_serializer, sink.value_serializer) == (serializer, L)
    assert isinstance(sink.partitioner, WindowedStreamPartitioner)


def test_should_keep_the_users_partitioner_for_windowed_keys() -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed(KEY, VALUE)).group_by_key().windowed_by(SessionWindows(10, grace=0))
    windowed.aggregate(empty, take, merge).to_stream().to("out", Produced(partitioner=choose))
    assert sink_of(builder, "out").partitioner is choose


def choose(topic: str, key: Any, value: Any, partitions: int) -> int:
    return 0
