from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from penstock.client.positions import Positions
from penstock.client.turns import plan_turn
from penstock.clock import ManualClock
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.plan import Plan

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
WORDS = [TopicPartition("app-words-repartition", 0), TopicPartition("app-words-repartition", 1)]


class FakeAdmin:
    """Logs that start at 0, and are empty unless told otherwise."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] = {}

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        return {p: self.ends.get(p, 0) for p in partitions}

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def positions(
    committed: dict[TopicPartition, OffsetAndMetadata], ends: dict[TopicPartition, int] | None = None, shuffled: bool = True
) -> Positions:
    topic = WORDS[0].topic
    before: Any = SimpleNamespace(id=0, source_topics=("lines",), repartition_source_topics={}, sink_topics=(topic,))
    behind: Any = SimpleNamespace(id=1, source_topics=(topic,), repartition_source_topics={topic: None}, sink_topics=())
    plan = Plan({0: before, 1: behind}, {"lines": 2, topic: 2}, {topic: 0} if shuffled else {})
    builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: None)
    admin = FakeAdmin()
    admin.ends = ends or {}

    def read_committed(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: committed[p] for p in partitions if p in committed}

    found = Positions(plan, "app", admin, read_committed, builder, "earliest", ManualClock(0))  # type: ignore[arg-type]
    found.load([TaskId(1, 0), TaskId(1, 1)])
    return found


def test_should_start_a_task_behind_a_shuffle_where_its_vector_says() -> None:
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|3,4"), WORDS[1]: OffsetAndMetadata(0, "|9|5,6")})
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 5, LINES[1]: 6}}
    assert found.lowest(LINES[0]) == 3


def test_should_start_a_task_without_a_vector_at_the_offsets_of_the_sources() -> None:
    """As the driver commits them, or a reset of the application sets them."""
    found = positions({LINES[0]: OffsetAndMetadata(8), WORDS[1]: OffsetAndMetadata(0, "|9|10,11")})
    assert found.vectors == {WORDS[0]: {LINES[0]: 8, LINES[1]: 0}, WORDS[1]: {LINES[0]: 10, LINES[1]: 11}}


def test_should_read_again_what_a_closed_task_had_fetched_and_not_committed() -> None:
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|3,4")})
    for vector in found.vectors.values():
        vector.update({LINES[0]: 50, LINES[1]: 50})
    found.forget_fetched(TaskId(1, 0))
    found.forget_fetched(TaskId(1, 1))
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 0, LINES[1]: 0}}


def test_should_give_a_lane_a_vector_also_before_the_first_commit() -> None:
    found = positions({LINES[0]: OffsetAndMetadata(8)})
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(0, "|0|lines=8,0")}


def test_should_keep_where_the_topic_was_read_to_in_what_is_committed_behind_a_shuffle() -> None:
    """An application in Java that takes over reads on there."""
    found = positions({LINES[0]: OffsetAndMetadata(8), WORDS[0]: OffsetAndMetadata(12, "times")}, {WORDS[0]: 12})
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(12, "times|12|lines=8,0")}


def test_should_read_what_is_left_in_the_topic_before_a_shuffle_begins() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(1, "times"), WORDS[1]: OffsetAndMetadata(5), LINES[0]: OffsetAndMetadata(11)}
    found = positions(committed, {WORDS[0]: 11, WORDS[1]: 5, LINES[0]: 20})
    assert found.draining == {WORDS[0]: 11}
    assert found.fetched == {WORDS[0]: 1}
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(1, "times")}
    ends = {WORDS[0]: 11, LINES[0]: 20, LINES[1]: 0}
    turn = plan_turn(found._plan, found, ends, {TaskId(1, 0): 0, TaskId(1, 1): 0}, [], lambda backlog: 100)
    assert turn is not None
    assert (turn.upstream, turn.ranges) == ([], [FetchRange(WORDS[0].topic, 0, 1, 11)])
    assert not found.is_drained
    found.committed[WORDS[0]] = OffsetAndMetadata(11)
    assert found.is_drained


def test_should_read_all_of_a_topic_that_nobody_has_read_before_a_shuffle_begins() -> None:
    assert positions({}, {WORDS[1]: 3}).draining == {WORDS[1]: 3}


def test_should_begin_where_the_shuffle_ended_when_repartitions_go_through_the_topic() -> None:
    committed = {
        WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=3,4"),
        WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=3,6+1"),
        LINES[0]: OffsetAndMetadata(1),
        LINES[1]: OffsetAndMetadata(1),
    }
    assert positions(committed, {WORDS[0]: 2, WORDS[1]: 2}, shuffled=False).leaving_shuffle() == {
        LINES[0]: OffsetAndMetadata(3),
        LINES[1]: OffsetAndMetadata(4, f"|had|{WORDS[0].topic}=4,6+1"),
        WORDS[0]: OffsetAndMetadata(2, "t0"),
        WORDS[1]: OffsetAndMetadata(2, "t1"),
    }


def test_should_start_at_the_lag_where_a_task_never_had_a_vector() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(0, "|7|lines=3,4"), LINES[0]: OffsetAndMetadata(1)}
    assert positions(committed, shuffled=False).leaving_shuffle() == {
        LINES[0]: OffsetAndMetadata(1, f"|had|{WORDS[0].topic}=3,1"),
        LINES[1]: OffsetAndMetadata(0, f"|had|{WORDS[0].topic}=4,0"),
        WORDS[0]: OffsetAndMetadata(0),
        WORDS[1]: OffsetAndMetadata(0),
    }


def test_should_change_nothing_where_repartitions_went_through_the_topic_before() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(2, "t0"), LINES[1]: OffsetAndMetadata(4, f"|had|{WORDS[0].topic}=4,6")}
    assert positions(committed, shuffled=False).leaving_shuffle() == {}
    assert positions(committed, shuffled=True).leaving_shuffle() == {}
