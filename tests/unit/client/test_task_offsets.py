"""Where tasks begin: committed offsets that fit their logs, the reset policy, and offset vectors of earlier releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.client.scheduling.vector_upgrade import upgrade, upgraded_offsets
from penstock.clock import ManualClock
from penstock.errors import BrokerError, StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.log_bounds import LogBounds
from penstock.runtime.offset_metadata import OffsetAndMetadata, ProcessorMetadata, TopicPartitionMetadata, with_own_offset
from penstock.spark.messages import TaskStart
from penstock.spark.plan import Plan
from penstock.topology.offset_reset import AutoOffsetReset

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
WORDS = [TopicPartition("app-words-repartition", 0), TopicPartition("app-words-repartition", 1)]
READS_ORDERS = [TaskId(2, 0), TaskId(2, 1)]


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


def offsets(
    committed: dict[TopicPartition, OffsetAndMetadata],
    logs: Mapping[TopicPartition, LogBounds] | None = None,
    *,
    policy: str = "earliest",
    committed_only: bool = False,
) -> TaskOffsets:
    topic = WORDS[0].topic
    before: Any = SimpleNamespace(id=0, source_topics=("lines",), repartition_source_topics={}, sink_topics=(topic,))
    behind: Any = SimpleNamespace(id=1, source_topics=(topic,), repartition_source_topics={topic: None}, sink_topics=())
    direct: Any = SimpleNamespace(id=2, source_topics=("orders",), repartition_source_topics={}, sink_topics=())
    plan = Plan({0: before, 1: behind, 2: direct}, {"lines": 2, "orders": 2, topic: 2})
    duration = AutoOffsetReset.by_duration(timedelta(seconds=1)) if policy == "by_duration" else None
    builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: duration)
    admin: Any = FakeAdmin(logs)

    def read_committed(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: committed[p] for p in partitions if p in committed}

    return TaskOffsets(plan, "app", admin, read_committed, builder, policy, ManualClock(10_000), committed_only=committed_only)


def starts(found: Mapping[TaskId, TaskStart]) -> dict[TopicPartition, int]:
    return {p: at for start in found.values() for p, at in start.offsets.items()}


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
    found = offsets(known, {ORDERS[0]: log}, policy=policy).read(READS_ORDERS)
    assert starts(found) == {ORDERS[0]: start, ORDERS[1]: 9}
    assert found[READS_ORDERS[0]].committed == {ORDERS[0]: OffsetAndMetadata(start, "times")}
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
    found = offsets(committed, logs, policy=policy, committed_only=committed_only).read(READS_ORDERS)
    assert starts(found) == dict.fromkeys(ORDERS, start)


def test_should_refuse_to_guess_where_the_policy_is_none() -> None:
    known = {ORDERS[0]: OffsetAndMetadata(7)}
    with pytest.raises(StreamsError, match="policy is none: offset 7 is committed for orders-0, but it lies beyond the end"):
        offsets(known, {ORDERS[0]: LogBounds(0, 5, 5)}, policy="none").read(READS_ORDERS[:1])


def test_should_never_skip_what_the_application_wrote_for_itself() -> None:
    logs = {WORDS[0]: LogBounds(3, 9, 9), WORDS[1]: LogBounds(0, 9, 9)}
    assert starts(offsets({}, logs, policy="latest").read([TaskId(1, 0), TaskId(1, 1)])) == {WORDS[0]: 3, WORDS[1]: 0}


def test_should_say_that_brokers_have_forgotten_a_commit(caplog: pytest.LogCaptureFixture) -> None:
    found = offsets({ORDERS[0]: OffsetAndMetadata(484), ORDERS[1]: OffsetAndMetadata(20)})
    found.note_given_up({ORDERS[0]: OffsetAndMetadata(753), ORDERS[1]: OffsetAndMetadata(20)}, {ORDERS[0]: 484, ORDERS[1]: 20})
    assert starts(found.read(READS_ORDERS))[ORDERS[0]] == 484
    (said,) = [record.getMessage() for record in caplog.records if "they lost it" in record.getMessage()]
    assert said.startswith("orders-0: this instance committed offset 753, but the brokers return 484")


def test_should_not_wonder_that_another_instance_has_gone_on(caplog: pytest.LogCaptureFixture) -> None:
    found = offsets({ORDERS[0]: OffsetAndMetadata(900)})
    found.note_given_up({ORDERS[0]: OffsetAndMetadata(484)}, {ORDERS[0]: 300})
    found.note_given_up({ORDERS[1]: OffsetAndMetadata(800)}, {ORDERS[1]: 800})  # where the reset policy had put it
    found.read(READS_ORDERS)
    assert "they lost it" not in caplog.text


# -- offset vectors of earlier releases --------------------------------------------------------------------------------


def own(offset: int) -> OffsetAndMetadata:
    """What an earlier release committed for a source before a shuffle."""
    return with_own_offset(OffsetAndMetadata(offset))


def ends(known: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogBounds]:
    return {partition: LogBounds(0, end, end) for partition, end in known.items()}


def test_should_convert_vectors_to_the_lowest_offsets_with_what_each_task_had() -> None:
    committed = {
        WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=3,4"),
        WORDS[1]: OffsetAndMetadata(2, "t1|9|lines=3,6+1"),
        LINES[0]: own(1),
        LINES[1]: own(1),
    }
    assert upgraded_offsets(offsets(committed, ends({WORDS[0]: 2, WORDS[1]: 2}))) == {
        LINES[0]: own(3),
        LINES[1]: OffsetAndMetadata(4, f"|had|{WORDS[0].topic}=4,6+1"),
        WORDS[0]: OffsetAndMetadata(2, "t0"),
        WORDS[1]: OffsetAndMetadata(2, "t1"),
    }


def test_should_change_nothing_where_there_are_no_vectors() -> None:
    known = {WORDS[0]: OffsetAndMetadata(2, "t0"), LINES[0]: OffsetAndMetadata(5), LINES[1]: OffsetAndMetadata(6)}
    assert upgraded_offsets(offsets(known)) == {}


def test_should_not_go_back_to_a_vector_from_before_an_application_in_java_read_on() -> None:
    java = OffsetAndMetadata(9, TopicPartitionMetadata(5, ProcessorMetadata()).encode())
    committed = {
        WORDS[0]: OffsetAndMetadata(2, "t0|7|lines=3,4"),
        WORDS[1]: OffsetAndMetadata(7, "t1"),
        LINES[0]: java,
        LINES[1]: java,
    }
    found = upgraded_offsets(offsets(committed, ends({WORDS[0]: 8, WORDS[1]: 8})))
    assert {p: found[p].offset for p in LINES} == {LINES[0]: 9, LINES[1]: 9}


@pytest.mark.parametrize("offset", [3, 300])
def test_should_follow_an_offset_that_somebody_has_moved(offset: int) -> None:
    committed = {
        WORDS[0]: OffsetAndMetadata(0, "|7|lines=30,40"),
        WORDS[1]: OffsetAndMetadata(0, "|9|lines=30,40"),
        LINES[0]: OffsetAndMetadata(offset),
        LINES[1]: own(40),
    }
    found = upgraded_offsets(offsets(committed))
    assert {p: found[p].offset for p in LINES} == {LINES[0]: offset, LINES[1]: 40}


def test_should_start_at_the_offsets_of_the_sources_where_a_task_has_no_vector() -> None:
    committed = {WORDS[0]: OffsetAndMetadata(0, "|7|lines=30,40"), LINES[0]: own(20), LINES[1]: own(20)}
    found = upgraded_offsets(offsets(committed))
    assert found[LINES[0]] == OffsetAndMetadata(20, f"|had|{WORDS[0].topic}=30,20")


class FakeMember:
    def __init__(self, *, is_leader: bool, fails: bool = False) -> None:
        self.is_leader, self._fails = is_leader, fails
        self.committed: list[Any] = []
        self.rejoins = 0

    def commit(self, offsets: Any, *, whole: bool, generation: int) -> None:
        if self._fails:
            raise BrokerError("no answer")
        self.committed.append((offsets, whole, generation))

    def request_rejoin(self) -> None:
        self.rejoins += 1


def test_should_convert_once_by_the_leader_before_anybody_reads() -> None:
    found = offsets({WORDS[0]: OffsetAndMetadata(0, "|7|lines=30,40"), LINES[0]: own(20), LINES[1]: own(20)})
    member: Any = FakeMember(is_leader=False)
    assert not upgrade(member, found, 7)
    assert not member.committed
    leader: Any = FakeMember(is_leader=True)
    assert upgrade(leader, found, 7)
    assert [(whole, generation) for _, whole, generation in leader.committed] == [(True, 7)]


def test_should_ask_for_another_generation_where_the_brokers_do_not_take_it() -> None:
    """The commit may still be taken later: in another generation it is refused."""
    found = offsets({WORDS[0]: OffsetAndMetadata(0, "|7|lines=30,40"), LINES[0]: own(20), LINES[1]: own(20)})
    leader: Any = FakeMember(is_leader=True, fails=True)
    with pytest.raises(BrokerError):
        upgrade(leader, found, 7)
    assert leader.rejoins == 1
