"""Where a thread can go from where it is, and what follows from what its worker reports."""

from __future__ import annotations

import itertools

import pytest

from penstock.client.scheduling.run_state import RunPhase, RunState
from penstock.client.scheduling.supervised_thread import SupervisedThread, ThreadPhase
from penstock.errors import StreamsError
from penstock.ids import TaskId
from tests.unit.client.simulated import World

A, B = TaskId(1, 0), TaskId(1, 1)
CREATED, OPENING, RESTORING, RUNNING, BACKING_OFF, CLOSING, CLOSED = ThreadPhase
OPEN = {OPENING, RESTORING, RUNNING}
ALLOWED = {
    *((CREATED, new) for new in (OPENING, BACKING_OFF, CLOSING)),
    *((old, new) for old in OPEN for new in {*OPEN, CREATED, BACKING_OFF, CLOSING} - {old}),
    *((BACKING_OFF, new) for new in (CREATED, CLOSING)),
    (CLOSING, CLOSED),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(ThreadPhase, 2)))
def test_should_go_only_where_the_drawing_allows_for_it(old: ThreadPhase, new: ThreadPhase) -> None:
    thread = SupervisedThread(3)
    thread.phase = old
    if (old, new) in ALLOWED:
        assert thread.become(new)
        assert thread.phase is new
    else:
        with pytest.raises(StreamsError, match=f"thread 4 cannot become {new.name}: it is {old.name}"):
            thread.become(new)
        assert thread.phase is old


def test_should_work_when_all_that_is_wanted_of_it_is_open_and_restored() -> None:
    thread = SupervisedThread(0)
    thread.become(OPENING)
    thread.holds, thread.running = frozenset({A, B}), frozenset({A})
    assert thread.update_phase([A, B])
    assert thread.phase is RESTORING
    thread.running = frozenset({A, B})
    assert thread.update_phase([A, B])
    assert thread.phase is RUNNING
    assert not thread.update_phase([A, B])
    assert thread.update_phase([A])
    assert thread.phase is OPENING


def test_should_know_nothing_of_its_worker_once_it_has_failed() -> None:
    thread = SupervisedThread(0)
    thread.become(OPENING)
    thread.holds = thread.running = frozenset({A})
    thread.failed()
    assert thread.phase is BACKING_OFF
    assert not thread.holds
    assert not thread.is_open


def test_should_wait_as_the_thread_whose_place_it_takes(clock: list[float]) -> None:
    failed = SupervisedThread(0)
    failed.backoff.failed()
    new = SupervisedThread.after(failed, 5)
    assert new.backoff.rests
    assert new.has_begun


def test_should_end_whatever_the_run_is_told_afterwards(clock: list[float]) -> None:
    run: RunState = World(clock, threads=1).loop._run
    assert run.become(RunPhase.PAUSED)
    assert run.become(RunPhase.ACTIVE)
    assert run.become(RunPhase.FAILED)
    assert not run.become(RunPhase.PAUSED)
    assert not run.become(RunPhase.ACTIVE)
    assert run.is_over
