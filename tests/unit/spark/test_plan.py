from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Consumed,
    FailOnInvalidTimestamp,
    Grouped,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Processor,
    Serde,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from penstock.errors import ConfigError
from penstock.ids import TopicPartition
from penstock.runtime.carry_over import ProcessorMetadata, TopicPartitionMetadata, with_logs
from penstock.spark.plan import Plan, StateBound, make_plan, vector_bytes
from penstock.spark.vectors import Vector
from penstock.state.stores import Stores

TEXT = Serdes.string()


def own_time(record: Any, partition_time: int) -> int:
    return int(record.timestamp)


def own_or_last(record: Any, partition_time: int) -> int:
    return record.timestamp if record.timestamp >= 0 else partition_time


def from_within(record: Any, partition_time: int) -> int:
    return max(time for time in (record.timestamp, *(partition_time for _ in range(1))))


class Mixed:
    def extract(self, record: Any, partition_time: int) -> int:
        return max(record.timestamp, partition_time)


class Called:
    def __call__(self, record: Any, partition_time: int) -> int:
        return int(record.value)


def plan_with(
    extractor: Any,
    transport: str = "auto",
    partitions: int = 2,
    targets: int | None = None,
    counts: Materialized[Any, Any] | None = None,
) -> Plan:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(TEXT, TEXT, timestamp_extractor=extractor))
    lines.group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count(counts)
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", "repartition.transport": transport})
    built = builder.build().internal_topology_builder
    built.rewrite_topology(config)
    subtopologies = built.subtopologies("app", {})
    topics = {topic: partitions for s in subtopologies for topic in s.source_topics}
    topics |= {topic: targets or partitions for s in subtopologies for topic in s.repartition_source_topics}
    return make_plan(subtopologies, topics, config)


class Sees(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        """Whatever it does with the store."""


def plan_with_store(supplier: Any, logged: bool) -> Plan:
    """A store of words behind a repartition."""
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(supplier, TEXT, TEXT)
    builder.add_state_store(store if logged else store.with_logging_disabled())
    words = builder.stream("lines", Consumed(TEXT, TEXT)).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count()
    words.to_stream().process(Sees, "seen")
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1"})
    built = builder.build().internal_topology_builder
    built.rewrite_topology(config)
    subtopologies = built.subtopologies("app", {})
    topics = {topic: 2 for s in subtopologies for topic in (*s.source_topics, *s.repartition_source_topics)}
    return make_plan(subtopologies, topics, config)


@pytest.mark.parametrize(
    ("supplier", "logged", "bound"),
    [
        (Stores.in_memory_key_value_store("seen"), True, None),
        (Stores.persistent_key_value_store("seen"), True, None),
        (Stores.in_memory_key_value_store("seen"), False, StateBound.PROCESS),
        (Stores.lru_map("seen", 10), False, StateBound.PROCESS),
        (Stores.persistent_key_value_store("seen"), False, StateBound.HOST),
    ],
)
def test_should_know_where_state_without_a_changelog_is_bound_to(supplier: Any, logged: bool, bound: StateBound | None) -> None:
    plan = plan_with_store(supplier, logged)
    assert dict(plan.bound) == ({} if bound is None else {1: bound})
    assert bool(plan.shuffled) is (bound is not StateBound.PROCESS), "a change of the transport closes tasks"


@pytest.mark.parametrize("extractor", [None, FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp(), own_time, Called()])
def test_should_shuffle_where_the_time_comes_from_the_record_alone(extractor: Any) -> None:
    assert plan_with(extractor).shuffled


@pytest.mark.parametrize("extractor", [UsePartitionTimeOnInvalidTimestamp(), own_or_last, from_within, Mixed(), max])
def test_should_write_to_the_topic_where_the_time_may_come_from_the_partition(extractor: Any) -> None:
    assert not plan_with(extractor).shuffled


@pytest.mark.parametrize("extractor", [UsePartitionTimeOnInvalidTimestamp(), own_or_last])
def test_should_refuse_a_shuffle_that_would_forget_the_time_of_the_partition(extractor: Any) -> None:
    with pytest.raises(ConfigError, match="uses the partition's time"):
        plan_with(extractor, "shuffle")


def test_should_shuffle_by_the_clock_only_where_asked_to() -> None:
    assert not plan_with(WallclockTimestampExtractor()).shuffled
    assert plan_with(WallclockTimestampExtractor(), "shuffle").shuffled


@pytest.mark.parametrize("which", ["key_serde", "value_serde"])
def test_should_shuffle_whole_records_where_a_serde_of_the_counts_takes_headers(which: str) -> None:
    plain: Any = Serde(lambda topic, value: b"", lambda topic, data: None)
    with_headers: Any = Serde(lambda topic, value, headers: b"", lambda topic, data, headers: None)
    assert plan_with(None, counts=Materialized("counts", **{which: plain})).counted
    taken = plan_with(None, counts=Materialized("counts", **{which: with_headers}))
    assert taken.shuffled
    assert not taken.counted


def test_should_write_to_the_topic_where_there_are_more_sources_than_a_broker_keeps_positions_of() -> None:
    assert plan_with(None, partitions=200).shuffled
    assert not plan_with(None, partitions=300).shuffled
    with pytest.raises(ConfigError, match=r"300 partitions of its topics take up to 3,907 bytes.*room for 3,000"):
        plan_with(None, "shuffle", partitions=300)


def test_should_write_to_the_topic_where_the_shuffle_could_not_be_left_any_more() -> None:
    """What all targets had of a source is committed with its offset."""
    assert plan_with(None, targets=200).shuffled
    assert not plan_with(None, targets=300).shuffled
    assert plan_with(None, "shuffle", targets=300).shuffled


def test_should_fit_what_a_broker_keeps_of_an_offset() -> None:
    """All that a task behind a shuffle commits with its offset: what it must not forget, the ids of topics, and its vector."""
    sources = [TopicPartition("lines-of-a-shop", partition) for partition in range(200)]
    assert vector_bytes({"lines-of-a-shop": 200}) < 3_000
    stores = ProcessorMetadata({f"KSTREAM-AGGREGATE-STATE-STORE-{number:010}": 1 << 62 for number in range(4)})
    times = TopicPartitionMetadata(1 << 62, stores).encode()
    vector = Vector(10**12, dict.fromkeys(sources, 10**12 - 1)).committed(times, sources, 10**12)
    assert len(with_logs(vector, {"lines-of-a-shop": 1 << 62}).metadata) < 4_096
