"""The rooms of the conductor, each by itself: notes, the group's words, orders, and when the shuffle has been left."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.scheduling.group_words import GroupWords
from penstock.client.scheduling.job_watch import JobWatch
from penstock.client.scheduling.lane_loop import Job, LaneLoop, runs_turns
from penstock.client.scheduling.notes import Beside, Notes
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.shuffle_exit import ShuffleExit, leave_shuffle
from penstock.client.scheduling.turns import Turn
from penstock.config.streams_config import StreamsConfig
from penstock.errors import BrokerError
from penstock.ids import TaskId, TopicPartition, UnitId
from penstock.kafka.membership import Membership
from penstock.runtime.carry_over import OffsetAndMetadata
from tests.unit.client.simulated import Beside as Executor

UNITS = {UnitId("0_0"): (TaskId(0, 0),), UnitId("0_1"): (TaskId(0, 1),)}
LINES = TopicPartition("lines", 0)


class Member:
    """One that leads or not, and counts what it is asked for."""

    failure = None

    def __init__(self, *, is_leader: bool = True) -> None:
        self.is_leader = is_leader
        self.rejoins = 0
        self.committed: list[Any] = []
        self.refuses = False

    def request_rejoin(self) -> None:
        self.rejoins += 1

    def commit(self, offsets: Any, **how: Any) -> None:
        if self.refuses:
            raise BrokerError("away")
        self.committed.append((dict(offsets), how))


def make_words(guarantee: str = "exactly_once_v2", *, idle: bool = True) -> tuple[GroupWords, Notes]:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", "processing.guarantee": guarantee})
    tasks: Any = SimpleNamespace(
        work_of=lambda membership: SimpleNamespace(units=UNITS), changed_between=lambda before, after: {TaskId(0, 1)}
    )
    notes = Notes()
    return GroupWords(config, tasks, notes, SimpleNamespace(is_set=lambda: idle)), notes


# -- notes


def test_should_take_what_was_done_beside_on_the_conductors_thread_and_one_of_a_name_at_a_time() -> None:
    executor, notes = Executor(), Notes()
    beside, taken = Beside(executor, notes), list[int]()
    beside.do("look", lambda: 1, taken.append)
    beside.do("look", lambda: 2, taken.append)
    assert len(executor.pending) == 1
    executor.run_one()
    assert (taken, beside.is_busy("look")) == ([], True)  # nobody has taken the note up
    note = notes.take()
    assert note is not None
    note()
    assert (taken, beside.is_busy("look"), notes.take()) == ([1], False, None)
    beside.do("look", lambda: 3, taken.append)
    assert len(executor.pending) == 1


def test_should_fail_where_it_is_taken_and_be_free_for_the_next() -> None:
    executor, notes = Executor(), Notes()
    beside = Beside(executor, notes)

    def fail() -> None:
        raise BrokerError("away")

    beside.do("look", fail)
    executor.run_one()
    note = notes.take()
    assert note is not None
    with pytest.raises(BrokerError):
        note()
    assert not beside.is_busy("look")


def test_should_hand_over_what_came_behind_what_was_known() -> None:
    notes, seen = Notes(), list[Any]()
    future: Future[int] = Future()
    Beside(Executor(), notes).then(future, lambda *arguments: seen.append(arguments), "lane", 1)
    assert notes.take() is None
    future.set_result(7)
    note = notes.take()
    assert note is not None
    note()
    assert seen == [("lane", 1, future)]


# -- the words of the group


def test_should_pause_for_a_moment_under_exactly_once(clock: list[float]) -> None:
    words, _ = make_words()
    words.assigned(Membership(1, b"", ("0_0",)))
    words.adopted_at = words.latest().number
    assert words.allow_turns
    stopped = words.revoked()
    assert (words.allow_turns, words.membership is None, stopped.is_set()) == (False, False, True)
    clock[0] += 5
    assert words.allow_turns  # whoever takes longer is not waited for


def test_should_start_no_turn_under_at_least_once_until_the_next_generation(clock: list[float]) -> None:
    words, _ = make_words("at_least_once", idle=False)
    words.assigned(Membership(1, b"", ("0_0",)))
    words.adopted_at = words.latest().number
    stopped = words.revoked()
    clock[0] += 5
    assert (words.allow_turns, stopped.is_set()) == (False, False)
    assert words.claimed is not None
    words.assigned(Membership(2, b"", ("0_0",)))
    assert not words.allow_turns  # it is not adopted yet
    words.adopted_at = words.latest().number
    assert words.allow_turns


def test_should_tell_by_which_word_others_had_a_task(clock: list[float]) -> None:
    words, _ = make_words()
    words.assigned(Membership(1, b"", ("0_0", "0_1")))
    assert words.latest().elsewhere == {TaskId(0, 1): 1}  # what feeds it goes another way than before
    words.assigned(Membership(2, b"", ("0_1",)))
    assert words.latest().elsewhere == {TaskId(0, 0): 2, TaskId(0, 1): 2}
    words.revoked(lost=True)
    assert words.latest() == (None, 3, {TaskId(0, 0): 3, TaskId(0, 1): 3})
    assert words.claimed is None
    assert words.last is not None
    words.forget()
    assert not words.latest().elsewhere


def test_should_probe_only_where_it_leads_and_once_in_a_generation(clock: list[float]) -> None:
    words, _ = make_words()
    member: Any = Member(is_leader=False)
    words.member = member
    words.assigned(Membership(1, b"", ("0_0",), probing=True))
    clock[0] += 3600
    words.probe_in_time()
    assert member.rejoins == 0
    member.is_leader = True
    words.probe_in_time()
    words.probe_in_time()
    words.probe()
    assert member.rejoins == 1


# -- orders


@pytest.mark.parametrize("order", ["pause", "halt", "shut_down", "level"])
def test_should_start_no_turns_by_order(clock: list[float], order: str) -> None:
    words, notes = make_words()
    run = RunState(words, notes)
    words.assigned(Membership(1, b"", ("0_0",)))
    assert not run.may_work
    words.adopted_at = words.latest().number
    assert run.may_work
    if order == "level":
        run.stop()
        assert run.may_work  # tasks behind a shuffle are brought to the same position first
        run.is_level = True
    elif order == "pause":
        run.pause(True)
    else:
        getattr(run, order)()
    assert not run.may_work
    assert run.is_over == (order in ("shut_down", "level"))


# -- leaving the shuffle


class Left:
    """Positions of which some are left of a shuffle."""

    def __init__(self, **left: int) -> None:
        self.left = {TopicPartition(topic, 0): OffsetAndMetadata(offset) for topic, offset in left.items()}

    def leaving_shuffle(self) -> Any:
        return self.left

    def following_moves(self) -> Any:
        return {}

    def copy(self) -> Left:
        return self


def test_should_leave_the_shuffle_in_one_commit_of_the_leader() -> None:
    leader: Any = Member()
    follower: Any = Member(is_leader=False)
    nothing: Any = Left()
    some: Any = Left(lines=5)
    assert leave_shuffle(follower, nothing, 3)
    assert not leave_shuffle(follower, some, 3)
    assert leave_shuffle(leader, some, 3)
    assert (follower.committed, leader.committed) == ([], [({LINES: OffsetAndMetadata(5)}, {"whole": True, "generation": 3})])
    leader.refuses = True
    with pytest.raises(BrokerError):
        leave_shuffle(leader, some, 3)
    assert leader.rejoins == 1


def test_should_ask_the_group_anew_where_its_leader_does_not_see_to_it(clock: list[float]) -> None:
    words, notes = make_words()
    member: Any = Member(is_leader=False)
    words.member = member
    tasks: Any = SimpleNamespace(plan=SimpleNamespace(has_topics=True), positions=Left(lines=5))
    executor = Executor()
    leaving, membership = ShuffleExit(words, tasks, Beside(executor, notes)), Membership(1, b"", ("0_0",))

    def looks() -> bool:
        done = leaving.is_done(membership, 1)
        while executor.pending:
            executor.run_one()
        while (note := notes.take()) is not None:
            note()
        return done

    for _ in range(12):
        assert not looks()
        clock[0] += 1.1
    assert member.rejoins == 1
    tasks.positions = Left()
    assert not looks()
    assert looks()
    leaving.look_again()
    assert not looks()


# -- jobs


def test_should_end_a_job_that_takes_too_long_unless_it_waits_for_a_core(clock: list[float]) -> None:
    cancelled: list[tuple[int, str]] = []
    jobs: Any = SimpleNamespace(
        lanes={0: SimpleNamespace(name="t1")},
        waits=SimpleNamespace(seconds={"t1": 50.0}),
        doing=lambda lane: "in process()",
        cancel=lambda lane, reason: cancelled.append((lane, reason)),
    )
    executor = Executor()
    watch, lane = JobWatch(jobs, 10.0, Beside(executor, Notes())), LaneLoop(0)
    lane.job = Job(turn=Turn())
    assert runs_turns([lane])
    clock[0] += 11
    watch.look(lane)
    assert not executor.pending
    jobs.waits.seconds = {}
    watch.look(lane)
    watch.look(lane)
    executor.run_one()
    assert lane.hangs
    assert [(lane, "in process()" in reason) for lane, reason in cancelled] == [(0, True)]
    assert not executor.pending
