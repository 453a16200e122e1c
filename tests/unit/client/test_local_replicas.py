"""The driver's side of copies, over updaters that only say what they are told to say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.client.callbacks import Callbacks
from penstock.client.replicas import local_replicas
from penstock.client.replicas.local_replicas import LocalReplicas, StandbyEvents, hosts_of
from penstock.client.replicas.standby_listener import StandbyUpdateListener, SuspendReason, standby_events
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.worker.standby_worker import Loaded, UpdateAnswer
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT

FAILED: list[StreamsError] = []
GUARD = Callbacks(FAILED.append)
TASK = TaskId(0, 1)
CHANGELOG = TopicPartition("app-counts-changelog", 1)


class StateUpdaters:
    """Has copies of what it is asked for; each look loads ten records of a hundred."""

    def __init__(self) -> None:
        self.offset, self.most = 0, 100
        self.asked: list[tuple[tuple[TaskId, ...], bool]] = []
        self._has: set[TaskId] = set()

    def update(self, host: str, tasks: Any, limits: Any = None, *, paused: bool = False) -> Future[UpdateAnswer]:
        self.asked.append((tuple(tasks), paused))
        self._has = self._has & set(tasks) if paused else set(tasks)
        answer: Future[UpdateAnswer] = Future()
        batches: tuple[Loaded, ...] = ()
        if TASK in tasks and not paused and self.offset < self.most:
            self.offset += 10
            batches = (Loaded(TASK, "counts", CHANGELOG, 0, self.offset, 100, 10),)
        copies = (Loaded(TASK, "counts", CHANGELOG, 0, self.offset, 100),) if TASK in self._has else ()
        answer.set_result(UpdateAnswer("worker", copies, batches))
        return answer


class Heard(StandbyUpdateListener):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_update_start(self, *event: Any) -> None:
        self.events.append(("start", *event))

    def on_batch_loaded(self, *event: Any) -> None:
        self.events.append(("batch", *event))
        raise ValueError("nobody listens")

    def on_update_suspended(self, *event: Any) -> None:
        self.events.append(("suspended", *event))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the updaters be asked again at once."""
    monkeypatch.setattr(local_replicas, "_SOON", 0.001)


@pytest.fixture
def heard() -> Heard:
    FAILED.clear()
    return Heard()


@pytest.fixture
def updaters() -> StateUpdaters:
    return StateUpdaters()


@pytest.fixture
def standbys(heard: Heard, updaters: StateUpdaters) -> Iterator[LocalReplicas]:
    found = LocalReplicas(updaters, standby_events(GUARD, lambda: heard), "copies", dict)  # type: ignore[arg-type]
    found.hurry(True)
    yield found
    found.close()


def caught_up(standbys: LocalReplicas) -> Callable[[], bool]:
    return lambda: standbys.lag(TASK) == 0


def test_should_follow_until_it_has_caught_up_and_tell_the_listener(standbys: LocalReplicas, heard: Heard) -> None:
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    assert standbys.offsets() == {TASK: 100}
    assert heard.events[0] == ("start", CHANGELOG, "counts", 0)
    assert heard.events[1] == ("batch", CHANGELOG, "counts", TASK, 9, 10, 100)
    assert len(heard.events) == 11
    assert [(error.task_id, str(error.__cause__)) for error in FAILED] == [(TASK, "nobody listens")] * 10


def test_should_know_how_far_a_copy_is_although_telling_of_it_fails(updaters: StateUpdaters) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("nobody listens")

    events = StandbyEvents(on_start=fail, on_batch=fail, on_suspended=fail, on_restore=fail, on_work=fail)
    standbys = LocalReplicas(updaters, events, "copies", dict)  # type: ignore[arg-type]
    standbys.hurry(True)
    standbys.want({TASK: ""}, restoring=[TASK])
    wait_until(caught_up(standbys), "the copy is complete")
    standbys.want({}, promoted=[TASK])
    wait_until(lambda: not standbys.is_letting_go(TASK), "the copy is closed")
    standbys.close()
    assert standbys.offsets() == {TASK: 100}


def test_should_tell_when_a_copy_that_is_to_run_here_is_let_go(heard: Heard) -> None:
    events, let_go = standby_events(GUARD, lambda: heard), threading.Event()
    events.on_let_go = let_go.set
    standbys = LocalReplicas(StateUpdaters(), events, "copies", dict)  # type: ignore[arg-type]
    standbys.hurry(True)
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    assert not standbys.is_letting_go(TASK)
    standbys.want({}, promoted=[TASK])
    assert let_go.wait(LIMIT)
    standbys.close()
    assert not standbys.is_letting_go(TASK)
    assert heard.events[-1] == ("suspended", CHANGELOG, "counts", 99, 100, SuspendReason.PROMOTED)
    assert standbys.lag(TASK) is None


def test_should_not_wait_with_a_copy_for_a_host_that_has_none_of_it() -> None:
    """A host that was lost answers late, if at all: the tasks whose copies are on others are needed at once."""
    other, silent = TaskId(0, 2), Future[UpdateAnswer]()

    class TwoHosts:
        def update(self, host: str, tasks: Any, limits: Any = None, *, paused: bool = False) -> Future[UpdateAnswer]:
            if host == "lost" and not tasks:
                return silent
            answer: Future[UpdateAnswer] = Future()
            copies = tuple(Loaded(task, "counts", CHANGELOG, 0, 100, 100) for task in tasks)
            answer.set_result(UpdateAnswer("worker", copies))
            return answer

    standbys = LocalReplicas(TwoHosts(), standby_events(GUARD, lambda: None), "copies", dict)  # type: ignore[arg-type]
    standbys.want({TASK: "lost", other: "here"})
    wait_until(lambda: standbys.lag(TASK) == standbys.lag(other) == 0, "both copies are there")
    standbys.want({}, promoted=[TASK, other])
    wait_until(lambda: not standbys.is_letting_go(other), "the copy is let go whose host has answered")
    assert standbys.is_letting_go(TASK)
    silent.set_exception(RuntimeError("its executor is gone"))
    wait_until(lambda: not standbys.is_letting_go(TASK), "the other one is let go with its host")
    standbys.close()


def test_should_not_take_a_copy_on_one_host_for_the_one_that_is_wanted_on_another() -> None:
    """Whoever believed it would open the task there, and restore all of it."""
    late = Future[UpdateAnswer]()

    class TwoHosts:
        def update(self, host: str, tasks: Any, limits: Any = None, *, paused: bool = False) -> Future[UpdateAnswer]:
            if host == "late" and tasks:
                return late
            answer: Future[UpdateAnswer] = Future()
            answer.set_result(UpdateAnswer("worker", tuple(Loaded(task, "counts", CHANGELOG, 0, 100, 100) for task in tasks)))
            return answer

    standbys = LocalReplicas(TwoHosts(), standby_events(GUARD, lambda: None), "copies", dict)  # type: ignore[arg-type]
    standbys.want({TASK: "early"})
    wait_until(lambda: standbys.lag(TASK) == 0, "the copy is there")
    standbys.want({TASK: "late"})
    assert standbys.lag(TASK) is None
    late.set_result(UpdateAnswer("worker", (Loaded(TASK, "counts", CHANGELOG, 0, 30, 100),)))
    wait_until(lambda: standbys.lag(TASK) == 70, "the other copy is heard of")
    standbys.close()


def test_should_let_go_of_a_copy_that_was_never_begun(standbys: LocalReplicas) -> None:
    with standbys._changed:  # nobody looks meanwhile
        standbys.want({TASK: "a"})
        standbys.want({})
        assert standbys.is_letting_go(TASK)
    wait_until(lambda: not standbys.is_letting_go(TASK), "there is nothing to close")


def test_should_not_wait_for_a_copy_that_others_have(standbys: LocalReplicas, heard: Heard) -> None:
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    standbys.want({})
    wait_until(lambda: heard.events[-1] == ("suspended", CHANGELOG, "counts", 99, 100, SuspendReason.MIGRATED), "it is let go")
    wait_until(lambda: standbys.lag(TASK) is None, "it is forgotten")
    assert standbys.offsets() == {TASK: 100}  # what is on the disk is remembered
    standbys.forget([TASK])
    assert standbys.offsets() == {}


def test_should_wait_for_a_copy_that_comes_back_before_it_is_let_go(standbys: LocalReplicas, heard: Heard) -> None:
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    standbys.want({})
    standbys.want({}, promoted=[TASK])
    wait_until(lambda: not standbys.is_letting_go(TASK), "it is let go")
    assert heard.events[-1][0] == "suspended"


def test_should_not_open_what_an_updater_still_has(heard: Heard) -> None:
    """The lock of its folder is held until the updater has answered."""
    updaters = StateUpdaters()
    standbys = LocalReplicas(updaters, standby_events(GUARD, lambda: heard), "copies", dict)  # type: ignore[arg-type]
    standbys.hurry(True)
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    may_answer, answer = threading.Event(), updaters.update

    def update(*asked: Any, **named: Any) -> Future[UpdateAnswer]:
        assert may_answer.wait(LIMIT)
        return answer(*asked, **named)

    updaters.update = update  # type: ignore[method-assign]
    standbys.want({}, promoted=[TASK])
    assert standbys.is_letting_go(TASK)
    may_answer.set()
    wait_until(lambda: not standbys.is_letting_go(TASK), "it is let go")
    standbys.close()


def test_should_tell_restoring_to_the_restore_listener_instead(heard: Heard) -> None:
    restored: list[tuple[str, int, int]] = []
    events = standby_events(GUARD, lambda: heard)
    events.on_restore = lambda progress, what: restored.append((what, progress.position, progress.restored))
    standbys = LocalReplicas(StateUpdaters(), events, "copies", dict)  # type: ignore[arg-type]
    standbys.want({TASK: ""}, restoring=[TASK])
    wait_until(caught_up(standbys), "the state is back")
    standbys.want({}, promoted=[TASK])
    wait_until(lambda: not standbys.is_letting_go(TASK), "it is let go")
    standbys.close()
    assert restored[0][0] == "start"
    assert [what for what, _, _ in restored[1:-1]] == ["batch"] * 10
    assert restored[-1] == ("done", 100, 100)
    assert not heard.events


# -- paused ------------------------------------------------------------------------------------------------------------

OTHER = TaskId(0, 2)


def told_to_pause(updaters: StateUpdaters) -> Callable[[], bool]:
    return lambda: bool(updaters.asked) and updaters.asked[-1][1]


def test_should_tell_the_updaters_once_and_ask_for_nothing_while_paused(standbys: LocalReplicas, updaters: StateUpdaters) -> None:
    updaters.most = 20
    standbys.want({TASK: ""})
    wait_until(lambda: updaters.offset == 20, "the copy follows")
    standbys.pause(True)
    wait_until(told_to_pause(updaters), "the updaters are told")
    jobs, reached = len(updaters.asked), updaters.offset
    standbys.hurry(False)
    standbys.hurry(True)
    standbys.want({TASK: "", OTHER: ""}, restoring=[OTHER])  # begun when it goes on
    time.sleep(0.5)
    assert (len(updaters.asked), updaters.offset) == (jobs, reached)
    updaters.most = 100
    standbys.pause(False)
    wait_until(caught_up(standbys), "the copy is complete")
    assert updaters.asked[jobs] == ((TASK, OTHER), False)


def test_should_let_go_of_a_copy_while_paused(standbys: LocalReplicas, updaters: StateUpdaters, heard: Heard) -> None:
    standbys.want({TASK: "", OTHER: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    standbys.pause(True)
    standbys.want({OTHER: ""}, promoted=[TASK])
    wait_until(lambda: not standbys.is_letting_go(TASK), "the copy is let go")
    assert updaters.asked[-1] == ((OTHER,), True)
    assert heard.events[-1] == ("suspended", CHANGELOG, "counts", 99, 100, SuspendReason.PROMOTED)


def test_should_begin_no_copy_while_paused(standbys: LocalReplicas, updaters: StateUpdaters) -> None:
    standbys.pause(True)
    standbys.want({TASK: ""})
    time.sleep(0.3)
    assert updaters.asked == []
    assert standbys.lag(TASK) is None  # so that nobody takes it for caught up
    standbys.pause(False)
    wait_until(caught_up(standbys), "the copy is complete")


def test_should_keep_workers_alive_while_paused(
    standbys: LocalReplicas, updaters: StateUpdaters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.replicas.local_replicas._ALIVE_EVERY", 0.05)
    standbys.want({TASK: ""})
    wait_until(caught_up(standbys), "the copy is complete")
    standbys.pause(True)
    wait_until(lambda: updaters.asked[-3:] == [((TASK,), True)] * 3, "they are asked now and then")
    assert standbys.lag(TASK) == 0


def test_should_spread_copies_over_hosts() -> None:
    tasks = [TaskId(0, p) for p in range(4)]
    assert list(hosts_of(tasks, ["a", "b"]).values()) == ["a", "b", "a", "b"]
    assert set(hosts_of(tasks, []).values()) == {""}
