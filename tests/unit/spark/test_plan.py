from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    Repartitioned,
    Serde,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    TaskId,
    TopicPartition,
)
from penstock.spark.plan import Plan, StateBound, make_plan, partitions_of
from penstock.state.stores import Stores

TEXT = Serdes.string()
READS: Any = Consumed(TEXT, TEXT)


def plan_of(builder: StreamsBuilder, partitions: int = 2, **settings: Any) -> Plan:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", **settings})
    built = builder.build().internal_topology_builder
    built.rewrite_topology(config)
    subtopologies = built.subtopologies("app", {})
    topics = {topic for s in subtopologies for topic in (*s.source_topics, *s.sink_topics)}
    return make_plan(subtopologies, dict.fromkeys(topics, partitions), config)


def chain(repartitions: int) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("lines", READS)
    for number in range(repartitions):
        stream = stream.select_key(lambda _, value: value).repartition(Repartitioned(f"again-{number}", TEXT, TEXT))
    stream.to("out", Produced(TEXT, TEXT))
    return builder


def test_should_run_subtopologies_in_the_order_of_their_repartitions() -> None:
    plan = plan_of(chain(3))
    assert sorted(plan.levels.values()) == [0, 1, 2, 3]
    for reader in plan.subtopologies.values():
        assert all(plan.levels[writer.id] < plan.levels[reader.id] for writer in plan.feeding(reader))
    assert plan.repartition_topics == {f"app-again-{number}-repartition" for number in range(3)}
    assert not plan.cyclic_topics


def test_should_run_a_subtopology_after_the_last_of_those_that_feed_it() -> None:
    """One input comes from its source directly, the other one through another repartition."""
    builder = StreamsBuilder()
    lines = builder.stream("lines", READS)
    first = lines.select_key(lambda _, value: value).repartition(Repartitioned("first", TEXT, TEXT))
    second = first.select_key(lambda _, value: value).repartition(Repartitioned("second", TEXT, TEXT))
    direct = lines.select_key(lambda key, _: key).repartition(Repartitioned("direct", TEXT, TEXT))
    second.merge(direct).to("out", Produced(TEXT, TEXT))
    plan = plan_of(builder)
    [last] = [s for s in plan.subtopologies.values() if "out" in s.sink_topics]
    assert plan.levels[last.id] == 2
    assert len(plan.feeding(last)) == 2


def test_should_know_the_topics_that_lead_back() -> None:
    """A table that is joined with itself by a foreign key feeds the sub-topology that it reads from."""
    builder = StreamsBuilder()
    people = builder.table("people", READS, Materialized("people", TEXT, TEXT))
    people.join(
        people, lambda one, other: one + other, foreign_key=lambda boss: boss, materialized=Materialized("pairs", TEXT, TEXT)
    )
    plan = plan_of(builder)
    assert plan.cyclic_topics
    assert plan.cyclic_topics <= plan.repartition_topics


def counting(counts: Any = None, **settings: Any) -> Plan:
    builder = StreamsBuilder()
    builder.stream("lines", READS).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count(counts)
    return plan_of(builder, **settings)


def test_should_only_count_what_is_only_counted() -> None:
    assert counting().counted == {"app-words-repartition"}
    assert not counting(**{"repartition.format": "records"}).counted
    assert not counting(**{"statestore.cache.max.bytes": 0}).counted
    assert not counting(Materialized("counts", caching=False)).counted
    assert not plan_of(chain(1)).counted


@pytest.mark.parametrize("which", ["key_serde", "value_serde"])
def test_should_send_whole_records_where_a_serde_of_the_counts_takes_headers(which: str) -> None:
    plain: Any = Serde(lambda topic, value: b"", lambda topic, data: None)
    with_headers: Any = Serde(lambda topic, value, headers: b"", lambda topic, data, headers: None)
    assert counting(Materialized("counts", **{which: plain})).counted
    assert not counting(Materialized("counts", **{which: with_headers})).counted


class Sees(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        """Whatever it does with the store."""


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
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(supplier, TEXT, TEXT)
    builder.add_state_store(store if logged else store.with_logging_disabled())
    words = builder.stream("lines", READS).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count()
    words.to_stream().process(Sees, "seen")
    assert dict(plan_of(builder).bound) == ({} if bound is None else {1: bound})


def test_should_have_a_task_for_each_partition_of_each_subtopology() -> None:
    plan = plan_of(chain(1), partitions=3)
    assert plan.tasks() == [TaskId(s, p) for s in (0, 1) for p in range(3)]
    assert [len(plan.inputs(task)) for task in plan.tasks()] == [1] * 6
    [reader] = [s.id for s in plan.subtopologies.values() if s.repartition_source_topics]
    assert plan.inputs(TaskId(reader, 2)) == [TopicPartition("app-again-0-repartition", 2)]
    assert partitions_of(plan, [TaskId(1 - reader, 2), TaskId(1 - reader, 0)]) == {"lines": [0, 2]}
