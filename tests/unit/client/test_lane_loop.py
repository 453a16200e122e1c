"""Where a lane can go from where it is, and what follows from what its worker says."""

from __future__ import annotations

import itertools

import pytest

from penstock.client.scheduling.lane_loop import Job, LaneLoop, LaneState
from penstock.client.scheduling.stages import Stage, StagePart
from penstock.errors import StreamsError
from penstock.ids import TaskId
from penstock.spark.messages import LaneAnswer

A, B = TaskId(1, 0), TaskId(1, 1)
CREATED, OPENING, RESTORING, RUNNING, HEALING, CLOSING, CLOSED = LaneState
OPEN = {OPENING, RESTORING, RUNNING}
ALLOWED = {
    *((CREATED, new) for new in (OPENING, HEALING, CLOSING)),
    *((old, new) for old in OPEN for new in {*OPEN, CREATED, HEALING, CLOSING} - {old}),
    *((HEALING, new) for new in (CREATED, CLOSING)),
    (CLOSING, CLOSED),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(LaneState, 2)))
def test_should_go_only_where_the_drawing_allows_for_it(old: LaneState, new: LaneState) -> None:
    lane = LaneLoop(3)
    lane.state = old
    if (old, new) in ALLOWED:
        assert lane.become(new)
        assert lane.state is new
    else:
        with pytest.raises(StreamsError, match=f"lane 3 cannot become {new.name}: it is {old.name}"):
            lane.become(new)
        assert lane.state is old


def test_should_stay_where_it_is_without_a_word() -> None:
    assert not LaneLoop(0).become(CREATED)


def opened(*running: TaskId) -> LaneLoop:
    lane = LaneLoop(0)
    lane.become(OPENING)
    assert lane.answered(Job(opens={A: 1, B: 1}), LaneAnswer("w", begun=(A, B), opened=running)) == set()
    return lane


def test_should_work_when_all_that_is_wanted_of_it_is_open_and_restored() -> None:
    lane = opened(A)
    assert lane.update_state([A, B])
    assert lane.state is RESTORING
    lane.answered(Job(opens={A: 1, B: 1}), LaneAnswer("w", opened=(A, B)))
    assert lane.update_state([A, B])
    assert lane.state is RUNNING
    assert not lane.update_state([A, B])
    assert lane.update_state([A])
    assert lane.state is OPENING
    assert lane.answered(Job(opens={A: 1}), LaneAnswer("w", opened=(A,))) == {B}
    assert lane.holds == {A: 1}


def test_should_not_settle_what_is_not_open() -> None:
    lane = LaneLoop(0)
    assert not lane.update_state([])
    assert lane.state is CREATED


def part(*tasks: TaskId) -> StagePart:
    return StagePart(Stage("p0", (), (), {}, 0), dict.fromkeys(tasks, ()))


def test_should_drop_what_was_brought_for_tasks_that_begin_anew_or_are_gone() -> None:
    lane = opened(A, B)
    lane.parts.extend([part(A), part(A, B)])
    lane.answered(Job(opens={A: 1, B: 2}), LaneAnswer("w", begun=(A,), opened=(A, B)))
    assert [set(left.feeds) for left in lane.parts] == [{B}]
    lane.answered(Job(opens={A: 1}), LaneAnswer("w", opened=(A,)))
    assert not lane.parts


@pytest.mark.parametrize("fails", [True, False])
def test_should_know_nothing_of_its_worker_after_a_failure_or_in_a_new_place(fails: bool) -> None:
    lane = opened(A, B)
    lane.parts.append(part(A))
    lane.job, lane.is_doubted = Job(opens={}), True
    if fails:
        lane.failed()
    else:
        lane.begin_anew()
    assert lane.state is (HEALING if fails else CREATED)
    assert (lane.job, lane.holds, lane.running, list(lane.parts), lane.is_doubted) == (None, {}, frozenset(), [], False)


def test_should_not_begin_anew_once_it_ends() -> None:
    lane = opened(A)
    lane.become(CLOSING)
    lane.begin_anew()
    assert lane.ends
    assert lane.state is CLOSING
