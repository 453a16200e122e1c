from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.scheduling.log_ends import Ends
from penstock.client.scheduling.positions import OffsetOutOfRangeError, Positions
from penstock.client.scheduling.turns import plan_turn
from penstock.clock import ManualClock
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange
from penstock.log_bounds import LogBounds
from penstock.runtime.carry_over import (
    OffsetAndMetadata,
    ProcessorMetadata,
    TopicPartitionMetadata,
    logs_of,
    with_logs,
    with_own_offset,
)
from penstock.spark.plan import Plan
from penstock.spark.vectors import Vector
from penstock.topology.offset_reset import AutoOffsetReset

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
WORDS = [TopicPartition("app-words-repartition", 0), TopicPartition("app-words-repartition", 1)]


class FakeAdmin:
    """Logs that start at 0 and end at 1,000, if nothing else is said; repartition topics have nothing in them."""

    def __init__(self, logs: Mapping[TopicPartition, LogBounds] | None = None) -> None:
        self.logs = logs or {}

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: log.start for p, log in self.log_bounds(partitions, False).items()}

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        return {p: log.stable_end if committed_only else log.end for p, log in self.log_bounds(partitions, False).items()}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int, committed_only: bool
    ) -> dict[TopicPartition, int]:
        assert timestamp_ms == 9_000  # all records are older
        return self.log_ends(partitions, committed_only)

    def log_bounds(
        self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False
    ) -> dict[TopicPartition, LogBounds]:
        return {p: self.logs.get(p, LogBounds(0, 0, 0) if p in WORDS else LogBounds(0, 1_000, 1_000)) for p in partitions}


def own(offset: int) -> OffsetAndMetadata:
    """What the application commits for a source before a shuffle."""
    return with_own_offset(OffsetAndMetadata(offset))


def ends(known: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogBounds]:
    return {partition: LogBounds(0, end, end) for partition, end in known.items()}


def positions(
    committed: dict[TopicPartition, OffsetAndMetadata],
    logs: Mapping[TopicPartition, LogBounds] | None = None,
    *,
    policy: str = "earliest",
    tasks: Sequence[TaskId] = (TaskId(1, 0), TaskId(1, 1)),
    shuffled: bool = True,
    committed_only: bool = False,
) -> Positions:
    topic = WORDS[0].topic
    before: Any = SimpleNamespace(id=0, source_topics=("lines",), repartition_source_topics={}, sink_topics=(topic,))
    behind: Any = SimpleNamespace(id=1, source_topics=(topic,), repartition_source_topics={topic: None}, sink_topics=())
    direct: Any = SimpleNamespace(id=2, source_topics=("orders",), repartition_source_topics={}, sink_topics=())
    plan = Plan({0: before, 1: behind, 2: direct}, {"lines": 2, "orders": 2, topic: 2}, {topic: 0} if shuffled else {})
    duration = AutoOffsetReset.by_duration(timedelta(seconds=1)) if policy == "by_duration" else None
    builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: duration)
    admin: Any = FakeAdmin(logs)

    def read_committed(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: committed[p] for p in partitions if p in committed}

    found = Positions(plan, "app", admin, read_committed, builder, policy, ManualClock(10_000), committed_only=committed_only)
    found.load(tasks)
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


def test_should_give_a_lane_a_vector_of_all_sources_also_where_one_has_come_since_the_last_commit() -> None:
    found = positions({LINES[1]: OffsetAndMetadata(8), WORDS[0]: OffsetAndMetadata(3, "times|7|lines=5+1")})
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(3, "times|7|lines=5+1,8")}


def test_should_keep_where_the_topic_was_read_to_in_what_is_committed_behind_a_shuffle() -> None:
    """An application in Java that takes over reads on there."""
    found = positions({LINES[0]: OffsetAndMetadata(8), WORDS[0]: OffsetAndMetadata(12, "times")}, ends({WORDS[0]: 12}))
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(12, "times|12|lines=8,0")}


def test_should_read_what_is_left_in_the_topic_before_a_shuffle_begins() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(1, "times"), WORDS[1]: OffsetAndMetadata(5), LINES[0]: OffsetAndMetadata(11)}
    found = positions(committed, ends({WORDS[0]: 11, WORDS[1]: 5, LINES[0]: 20}))
    assert found.draining == {WORDS[0]: 11}
    assert found.fetched == {WORDS[0]: 1}
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(1, "times")}
    known = {WORDS[0]: 11, LINES[0]: 20, LINES[1]: 0}
    turn = plan_turn(found._plan, found, known, [TaskId(1, 0), TaskId(1, 1)], [], lambda backlog: 100)
    assert turn is not None
    assert (turn.upstream, turn.ranges) == ([], [FetchRange(WORDS[0].topic, 0, 1, 11)])
    assert not found.is_drained
    found.committed[WORDS[0]] = OffsetAndMetadata(11)
    assert found.is_drained


def test_should_read_all_of_a_topic_that_nobody_has_read_before_a_shuffle_begins() -> None:
    assert positions({}, ends({WORDS[1]: 3})).draining == {WORDS[1]: 3}


def test_should_begin_where_the_shuffle_ended_when_repartitions_go_through_the_topic() -> None:
    committed = {
        WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=3,4"),
        WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=3,6+1"),
        LINES[0]: own(1),
        LINES[1]: own(1),
    }
    assert positions(committed, ends({WORDS[0]: 2, WORDS[1]: 2}), shuffled=False).leaving_shuffle() == {
        LINES[0]: own(3),
        LINES[1]: OffsetAndMetadata(4, f"|had|{WORDS[0].topic}=4,6+1"),
        WORDS[0]: OffsetAndMetadata(2, "t0"),
        WORDS[1]: OffsetAndMetadata(2, "t1"),
    }


def test_should_not_go_back_to_a_vector_from_before_somebody_else_read_on() -> None:
    """An application in Java went on with the sources; for one of the partitions it had nothing to commit."""
    by_java = TopicPartitionMetadata(5, ProcessorMetadata()).encode()
    committed = {
        WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=3,4"),
        WORDS[1]: OffsetAndMetadata(6, "t1"),
        LINES[0]: OffsetAndMetadata(9, by_java),
        LINES[1]: OffsetAndMetadata(4, by_java),
    }
    read = {LINES[0]: 9, LINES[1]: 4}
    found = positions(committed, ends({WORDS[0]: 2, WORDS[1]: 6}))
    assert found.vectors == {WORDS[0]: read, WORDS[1]: read}
    assert found.of_task(TaskId(1, 0)) == {WORDS[0]: OffsetAndMetadata(2, "t0|2|lines=9,4")}
    assert not positions(committed, shuffled=False).leaving_shuffle()
    # What it wrote and did not read itself is read first.
    assert positions(committed, ends({WORDS[0]: 5, WORDS[1]: 6})).draining == {WORDS[0]: 5}


def test_should_show_what_was_consumed_and_not_what_waits() -> None:
    """A task that waits for another partition has read further than it has committed: whoever goes on must not begin there."""
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|lines=3,4"), WORDS[1]: OffsetAndMetadata(0, "|9|lines=5,6")})
    for vector in found.vectors.values():
        vector.update({LINES[0]: 50, LINES[1]: 50})
    assert found.shown() == {LINES[0]: own(3), LINES[1]: own(4)}


def test_should_tell_of_which_sources_some_tasks_have_had_more_than_others() -> None:
    at = {LINES[0]: OffsetAndMetadata(3), LINES[1]: OffsetAndMetadata(3)}
    assert positions({**at, WORDS[0]: OffsetAndMetadata(0, "|7|lines=3,4")}).uneven() == {LINES[1]}
    even = {WORDS[0]: OffsetAndMetadata(0, "|7|lines=3,4"), WORDS[1]: OffsetAndMetadata(0, "|7|lines=3,4")}
    assert positions(even).uneven() == set()
    begun = {WORDS[0]: OffsetAndMetadata(0, "|7|lines=3+1,4"), WORDS[1]: OffsetAndMetadata(0, "|7|lines=3+1,4")}
    assert positions(begun).uneven() == {LINES[0]}


def test_should_start_at_the_lag_where_a_task_never_had_a_vector() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(0, "|7|lines=3,4"), LINES[0]: own(1)}
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


def test_should_go_on_where_a_task_was_before_the_shuffle_was_left_and_taken_again() -> None:
    """One commit left the shuffle, and nothing was read since: the source's commit is all that tells what each task had."""
    topic = WORDS[0].topic
    committed = {
        LINES[0]: OffsetAndMetadata(3, f"|had|{topic}=3,7"),
        LINES[1]: OffsetAndMetadata(4, f"|had|{topic}=4,6+1"),
        WORDS[0]: OffsetAndMetadata(0, "t0"),
        WORDS[1]: OffsetAndMetadata(0, "t1"),
    }
    found = positions(committed)
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 7, LINES[1]: 6}}
    assert found.of_task(TaskId(1, 1)) == {WORDS[1]: OffsetAndMetadata(0, "t1|0|lines=7,6+1")}
    assert found.shown() == {}  # a lag would take the place of what is carried
    found.committed |= {WORDS[0]: OffsetAndMetadata(0, "t0|1|lines=4,4")}
    assert found.shown() == {}
    found.committed |= {WORDS[1]: OffsetAndMetadata(0, "t1|1|lines=7,7")}
    assert found.shown() == {LINES[0]: own(4), LINES[1]: own(4)}


def test_should_leave_the_shuffle_again_with_what_tasks_had_when_they_left_it_before() -> None:
    """In between one of them has committed, and the other not."""
    topic = WORDS[0].topic
    committed = {
        LINES[0]: OffsetAndMetadata(3, f"|had|{topic}=3,7+2"),
        LINES[1]: own(4),
        WORDS[0]: OffsetAndMetadata(0, "t0|5|lines=9,4"),
        WORDS[1]: OffsetAndMetadata(0, "t1"),
    }
    left = positions(committed, shuffled=False).leaving_shuffle()
    assert left[LINES[0]] == OffsetAndMetadata(7, f"|had|{topic}=9,7+2")
    assert left[LINES[1]] == own(4)


BEHIND = {WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=30,40"), WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=31,40+1")}
NOTHING_LEFT = ends({WORDS[0]: 2, WORDS[1]: 2})


@pytest.mark.parametrize("offset", [3, 300])
def test_should_follow_an_offset_before_a_shuffle_that_was_moved(offset: int) -> None:
    committed = {**BEHIND, LINES[0]: OffsetAndMetadata(offset), LINES[1]: own(39)}
    assert positions(committed, NOTHING_LEFT).following_moves() == {
        LINES[0]: own(offset),
        WORDS[0]: OffsetAndMetadata(2, f"t0|7|lines={offset},40"),
        WORDS[1]: OffsetAndMetadata(2, f"t1|9|lines={offset},40+1"),
    }
    after = {**committed, **positions(committed, NOTHING_LEFT).following_moves()}
    assert positions(after, NOTHING_LEFT).following_moves() == {}
    assert {vector[LINES[0]] for vector in positions(after, NOTHING_LEFT).vectors.values()} == {offset}


def test_should_follow_an_offset_to_the_record_that_a_task_has_in_part() -> None:
    """All of its records come again: whoever moves the offset there wants the record anew."""
    found = positions({**BEHIND, LINES[0]: own(30), LINES[1]: OffsetAndMetadata(40)}, NOTHING_LEFT).following_moves()
    assert found == {LINES[1]: own(40), WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=31,40")}


def test_should_follow_an_offset_that_was_moved_with_the_words_it_was_committed_with() -> None:
    copied = own(30)._replace(offset=5)
    assert positions({**BEHIND, LINES[0]: copied}, NOTHING_LEFT).following_moves()[LINES[0]] == own(5)


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {LINES[0]: own(30), LINES[1]: own(40)},
        {LINES[0]: own(1), LINES[1]: own(39)},
        {LINES[0]: OffsetAndMetadata(7, f"|had|{WORDS[0].topic}=7,8")},
        {LINES[0]: OffsetAndMetadata(7, TopicPartitionMetadata(9, ProcessorMetadata()).encode())},
    ],
    ids=["no lag shown yet", "lag shown", "lag shown long ago", "the shuffle was left before", "the topic was written to before"],
)
def test_should_not_take_for_moved_what_the_application_has_committed(shown: dict[TopicPartition, OffsetAndMetadata]) -> None:
    assert positions({**BEHIND, **shown}, NOTHING_LEFT).following_moves() == {}


def test_should_mark_an_offset_from_before_the_first_start() -> None:
    times = TopicPartitionMetadata(9, ProcessorMetadata()).encode()
    committed = {LINES[0]: OffsetAndMetadata(5), LINES[1]: OffsetAndMetadata(6, times)}
    marks = positions(committed).following_moves()
    assert marks == {LINES[0]: own(5)}
    assert positions({**committed, **marks}).following_moves() == {}
    assert TopicPartitionMetadata.decode(own(5).metadata) == TopicPartitionMetadata.decode("")  # nothing for a task to know


def test_should_mark_an_offset_also_while_repartitions_go_through_their_topics() -> None:
    """They may go through the shuffle in the next generation, and then the offset must not look moved."""
    committed = {WORDS[0]: OffsetAndMetadata(2, "t0"), LINES[0]: OffsetAndMetadata(5)}
    assert positions(committed, NOTHING_LEFT, shuffled=False).following_moves() == {LINES[0]: own(5)}
    left = {**BEHIND, LINES[0]: OffsetAndMetadata(5)}
    assert positions(left, NOTHING_LEFT, shuffled=False).following_moves() == {}  # whoever leaves the shuffle sees to it


def test_should_read_what_others_left_in_the_topic_before_a_task_follows() -> None:
    """An application in Java has had the group in between: what it wrote for the task comes first."""
    found = positions({**BEHIND, LINES[0]: OffsetAndMetadata(3)}, ends({WORDS[0]: 9, WORDS[1]: 2})).following_moves()
    assert found == {LINES[0]: own(3), WORDS[0]: OffsetAndMetadata(2, "t0"), WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=3,40+1")}


def test_should_follow_where_the_vector_does_not_know_all_sources() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(2, "|7|lines=30"), LINES[0]: OffsetAndMetadata(3), LINES[1]: OffsetAndMetadata(4)}
    found = positions(committed, NOTHING_LEFT)
    assert found.following_moves() == {LINES[0]: own(3), LINES[1]: own(4), WORDS[0]: OffsetAndMetadata(2, "|7|lines=3")}


def test_should_follow_a_move_when_the_shuffle_is_left() -> None:
    committed = {**BEHIND, LINES[0]: OffsetAndMetadata(3), LINES[1]: own(39)}
    left = positions(committed, NOTHING_LEFT, shuffled=False).leaving_shuffle()
    assert left[LINES[0]] == own(3)
    assert left[LINES[1]] == OffsetAndMetadata(40, f"|had|{WORDS[0].topic}=40,40+1")


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded anew", "given away and back"])
def test_should_say_that_brokers_have_forgotten_a_commit(loaded: bool, caplog: pytest.LogCaptureFixture) -> None:
    tasks = [TaskId(2, 0), TaskId(2, 1)]
    told = {ORDERS[0]: OffsetAndMetadata(484), ORDERS[1]: OffsetAndMetadata(20)}
    found = positions(told, tasks=tasks)
    found.committed.update({ORDERS[0]: OffsetAndMetadata(753), ORDERS[1]: OffsetAndMetadata(20)})
    assert "forgotten" not in caplog.text
    if loaded:
        found.load(tasks)
    else:
        found.drop(tasks)
        copied = found.copy()
        copied.add(tasks)
        found.take(copied, tasks)
    assert found.start(ORDERS[0]) == 484
    (said,) = [record.getMessage() for record in caplog.records if "forgotten" in record.getMessage()]
    assert said.startswith("orders-0: this instance has committed offset 753, and the brokers tell 484")


def test_should_not_take_for_a_commit_where_the_reset_policy_has_put_a_partition(caplog: pytest.LogCaptureFixture) -> None:
    told = {ORDERS[0]: OffsetAndMetadata(500)}
    found = positions(told, {ORDERS[0]: LogBounds(800, 1_000, 1_000)}, tasks=[TaskId(2, 0)])
    assert found.start(ORDERS[0]) == 800
    found.drop([TaskId(2, 0)])
    found.add([TaskId(2, 0)])
    assert "forgotten" not in caplog.text


def test_should_not_wonder_that_another_instance_has_gone_on(caplog: pytest.LogCaptureFixture) -> None:
    told = {ORDERS[0]: OffsetAndMetadata(484)}
    found = positions(told, tasks=[TaskId(2, 0)])
    found.drop([TaskId(2, 0)])
    told[ORDERS[0]] = OffsetAndMetadata(900)
    found.add([TaskId(2, 0)])
    assert "forgotten" not in caplog.text
    assert found.start(ORDERS[0]) == 900


def test_should_say_that_an_offset_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    assert positions({**BEHIND, LINES[0]: own(30)}, NOTHING_LEFT).following_moves() == {}
    assert "no offset is committed for lines-1" in caplog.text
    assert "penstock reset" in caplog.text
    caplog.clear()
    positions({}).following_moves()
    assert not caplog.text


READS_ORDERS = [TaskId(2, 0), TaskId(2, 1)]


@pytest.mark.parametrize(
    ("policy", "log", "start"),
    [
        ("earliest", LogBounds(0, 5, 5), 0),
        ("latest", LogBounds(0, 5, 5), 5),
        ("earliest", LogBounds(12, 30, 30), 12),
        ("latest", LogBounds(12, 30, 30), 30),
        ("earliest", LogBounds(0, 7, 2), 7),
    ],
    ids=["beyond the end", "beyond the end", "before the start", "before the start", "only hidden by a transaction"],
)
def test_should_apply_the_reset_policy_where_a_committed_offset_is_not_in_the_log(
    policy: str, log: LogBounds, start: int, caplog: pytest.LogCaptureFixture
) -> None:
    known = {ORDERS[0]: OffsetAndMetadata(7, "times"), ORDERS[1]: OffsetAndMetadata(9)}
    found = positions(known, {ORDERS[0]: log}, policy=policy, tasks=READS_ORDERS)
    assert found.fetched == {ORDERS[0]: start, ORDERS[1]: 9}
    assert found.of_task(READS_ORDERS[0]) == {ORDERS[0]: OffsetAndMetadata(start, "times")}
    found.forget_fetched(READS_ORDERS[0])
    assert found.fetched[ORDERS[0]] == start
    assert ("offset 7 is committed for orders-0" in caplog.text) == (start != 7)


@pytest.mark.parametrize("policy", ["latest", "by_duration"])
@pytest.mark.parametrize(("committed_only", "start"), [(True, 2), (False, 7)])
@pytest.mark.parametrize(
    "committed",
    [{}, {ORDERS[0]: OffsetAndMetadata(9), ORDERS[1]: OffsetAndMetadata(9)}],
    ids=["nothing committed", "out of range"],
)
def test_should_start_at_the_last_stable_offset_if_only_committed_records_are_read(
    policy: str, committed_only: bool, start: int, committed: dict[TopicPartition, OffsetAndMetadata]
) -> None:
    logs = dict.fromkeys(ORDERS, LogBounds(start=0, end=7, stable_end=2))
    found = positions(committed, logs, policy=policy, tasks=READS_ORDERS, committed_only=committed_only)
    assert found.fetched == dict.fromkeys(ORDERS, start)


def test_should_refuse_to_guess_where_the_policy_is_none() -> None:
    with pytest.raises(StreamsError, match="policy is none: offset 7 is committed for orders-0, but it lies beyond the end"):
        positions({ORDERS[0]: OffsetAndMetadata(7)}, {ORDERS[0]: LogBounds(0, 5, 5)}, policy="none", tasks=READS_ORDERS[:1])


def vector(number: int, first: int, second: int, log: int = 0, begun: int = 0) -> OffsetAndMetadata:
    committed = Vector(number, dict(zip(LINES, (first, second))), {LINES[0]: begun} if begun else {}).committed("", LINES)
    return with_logs(committed, {"lines": log}) if log else committed


def test_should_begin_anew_where_the_log_behind_a_vector_is_another_one() -> None:
    known = {WORDS[0]: vector(7, 20, 4, log=11, begun=2), WORDS[1]: vector(9, 3, 4, log=12)}
    found = positions(known, dict.fromkeys(LINES, LogBounds(0, 25, 25, topic_id=12)))
    assert found.vectors == {WORDS[0]: {LINES[0]: 0, LINES[1]: 0}, WORDS[1]: {LINES[0]: 3, LINES[1]: 4}}
    corrected = found.of_task(TaskId(1, 0))[WORDS[0]]
    assert Vector.of(corrected, LINES) == Vector(7, {LINES[0]: 0, LINES[1]: 0}, {})
    assert logs_of(corrected) == {"lines": 12}


def test_should_begin_anew_for_all_where_a_log_ends_before_one_vector_and_nothing_tells_which_log_it_was() -> None:
    found = positions({WORDS[0]: vector(7, 20, 4), WORDS[1]: vector(9, 3, 4)}, {LINES[0]: LogBounds(0, 5, 5, topic_id=12)})
    assert found.vectors == {WORDS[0]: {LINES[0]: 0, LINES[1]: 4}, WORDS[1]: {LINES[0]: 0, LINES[1]: 4}}
    assert logs_of(found.committed[WORDS[1]]) == {"lines": 12}


def test_should_note_that_a_log_ends_before_what_was_read_of_it() -> None:
    found = positions({ORDERS[0]: OffsetAndMetadata(7), ORDERS[1]: OffsetAndMetadata(9)}, tasks=READS_ORDERS)
    ends = Ends(found.furthest(), {ORDERS[0]: 6, ORDERS[1]: 9}, {}, 0.0, {ORDERS[0]: 1000})
    assert not found.out_of_range(ends)  # the last stable offset; the log itself goes on to 1,000
    gone = found.out_of_range(ends._replace(short_of={ORDERS[0]: 6}))
    assert gone.keys() == {ORDERS[0]}
    with pytest.raises(OffsetOutOfRangeError, match="orders-0 ends at 6 and was read up to 7"):
        raise gone[ORDERS[0]]
    found.fetched[ORDERS[0]] = 5
    assert not found.out_of_range(ends._replace(short_of={ORDERS[0]: 6})), "it has begun anew since the question"
    found.fetched[ORDERS[0]] = 9
    assert not found.out_of_range(ends._replace(short_of={ORDERS[0]: 8})), "it was read after the question"


def test_should_take_over_what_was_read_for_some_tasks_and_leave_the_others_alone() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(0, "|7|3,4"), WORDS[1]: OffsetAndMetadata(0, "|9|5,6")}
    found = positions(committed)
    copied = found.copy()
    committed |= {WORDS[0]: OffsetAndMetadata(0, "|8|13,14"), WORDS[1]: OffsetAndMetadata(0, "|9|15,16")}
    copied.drop([TaskId(1, 0), TaskId(1, 1)])
    copied.add([TaskId(1, 0), TaskId(1, 1)])
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 5, LINES[1]: 6}}
    found.take(copied, [TaskId(1, 0)])
    assert found.vectors == {WORDS[0]: {LINES[0]: 13, LINES[1]: 14}, WORDS[1]: {LINES[0]: 5, LINES[1]: 6}}
    assert found.committed[WORDS[0]] == OffsetAndMetadata(0, "|8|13,14")
    assert found.sources_of(TaskId(1, 0)) == LINES
    assert found.reads(TaskId(1, 0), LINES[1])
    assert not found.reads(TaskId(1, 0), WORDS[1])
    assert found.start(LINES[0]) == 5


def test_should_not_show_where_sources_are_while_it_is_not_known_where_all_are_that_they_feed() -> None:
    """A task that is restored first has no vector yet, and begins where the sources' commits are."""
    found = positions({LINES[0]: OffsetAndMetadata(3), LINES[1]: OffsetAndMetadata(4)}, tasks=[TaskId(1, 0)])
    found.vectors[WORDS[0]].update({LINES[0]: 50, LINES[1]: 50})
    assert found.shown() == {}
    found.add([TaskId(1, 1)])
    assert found.shown() == {LINES[0]: own(3), LINES[1]: own(4)}


def test_should_wait_for_what_is_committed_for_the_sources_before_it_looks_what_is_left_in_the_topic() -> None:
    """A transaction adds its offsets first; the last of its records may come into the topic until it is decided."""
    found = positions({}, tasks=[])
    logs = found._admin.logs = {}  # type: ignore[attr-defined]

    def decided(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        if not set(LINES).isdisjoint(partitions):
            logs.update(ends({WORDS[0]: 2}))
            return {LINES[0]: OffsetAndMetadata(7)}
        return {}

    found._read_committed = decided
    found.add([TaskId(1, 0), TaskId(1, 1)])
    assert found.draining == {WORDS[0]: 2}
