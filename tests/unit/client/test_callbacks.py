"""Callbacks of the user on the client's threads: whatever one of them raises, at any call, reaches the exception handler.

The client is real, over a played group, played brokers and played threads. `tests/unit/spark/test_callbacks.py` has the callbacks
in workers.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, StreamsError, StreamThreadExceptionResponse
from penstock.client.listeners import StateRestoreListener
from penstock.client.replicas.standby_listener import StandbyUpdateListener, standby_events
from penstock.client.scheduling.failures import ThreadLostError
from penstock.client.stream_threads import ThreadState
from penstock.errors import BrokerError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import Failure, RestoreProgress
from penstock.spark.worker.standby_worker import Loaded
from tests.unit.client.simulated import Resident, World
from tests.unit.client.test_simulation import consumed_once

REPLACE_THREAD, SHUTDOWN_CLIENT, SHUTDOWN_APPLICATION = StreamThreadExceptionResponse
STATE_LISTENER = "state listener"
BYTES = Serdes.bytes()


def methods(listener: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(listener, inspect.isfunction) if name.startswith("on_")]


CALLBACKS = [STATE_LISTENER, *methods(StateRestoreListener), *methods(StandbyUpdateListener)]


class Away(Exception):
    """What a callback raises."""


class Raising:
    """Calls that go well until the one that is to raise, and after it."""

    def __init__(self, at: int, error: BaseException) -> None:
        self._at, self._error = at, error
        self.calls = 0

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        if self.calls == self._at:
            raise self._error


class Client:
    """A client in a played world whose tasks have state to restore."""

    def __init__(self, clock: list[float], response: Any, callback: str, raising: Callable[..., None]) -> None:
        builder = StreamsBuilder()
        builder.stream("in", Consumed(BYTES, BYTES)).to("out")
        self.streams: Any = KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "nobody:1"})
        self.world = world = World(clock, threads=2, **{"task.spread": "always"})
        self.asked: list[BaseException] = []
        self.restores_on = False
        streams, listener = self.streams, SimpleNamespace(**dict.fromkeys(CALLBACKS, lambda *_: None))
        setattr(listener, callback, raising)
        streams.set_state_listener(raising if callback == STATE_LISTENER else None)
        streams.set_global_state_restore_listener(listener)
        streams.set_standby_update_listener(listener)
        streams.set_uncaught_exception_handler(lambda error: self.asked.append(error) or response)
        streams._life.state = State.REBALANCING
        streams._loop, streams._member = world.loop, world.loop.member
        for _ in world.jobs_of.workers:
            streams._threads.add().set_state(ThreadState.STARTING)
        events = world.events
        events.on_running, events.on_rebalancing, events.on_failure = (
            streams._on_running,
            streams._on_rebalancing,
            streams._on_failure,
        )
        events.on_assigned, events.on_thread, events.on_restore = (
            streams._on_assigned,
            streams._on_thread,
            streams._restore_events(),
        )
        self.standbys = standby_events(streams._callbacks, lambda: streams._standby_listener)
        open_ = world.jobs_of._open

        def opened(job: Resident) -> None:
            before = set(world.jobs_of.processes[job.thread].tasks)
            open_(job)
            progress = tuple(
                RestoreProgress(task, "store", TopicPartition("changelog", task.partition), 0, 5, 10, 5)
                for task in job.starts
                if task not in before
            )
            job.report.restored, job.report.restoring = ((), progress) if self.restores_on else (progress, ())

        world.jobs_of._open = opened  # type: ignore[method-assign]
        world.assign()

    def go_on(self) -> None:
        """Let a thread fail in a way that passes, and begin anew; copies come and go."""
        copy = Loaded(TaskId(9, 0), "store", TopicPartition("changelog", 0), 0, 5, 10, 5)
        for _ in range(20):
            self.standbys.on_start(copy)
            self.standbys.on_batch(copy)
            self.standbys.on_suspended(copy, "MIGRATED")
        self.restores_on = not self.restores_on
        self.world.settle(10)
        self.world.produce("orders", 0)
        self.world.produce("lines", 1)
        for _ in range(40):
            self.world.step()
            self.world.do_background()
            if residents := self.world.residents():
                self.world.jobs_of.fail(residents[0], lost=True)
                break
        self.world.settle(10)

    @property
    def is_over(self) -> bool:
        return self.world.loop._run.is_over


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that fail again and again begin anew at once, and for as long as it takes."""
    monkeypatch.setattr("penstock.client.scheduling.backoff.Backoff.rests", property(lambda self: False))
    monkeypatch.setattr("penstock.client.scheduling.backoff.Backoff.failing_seconds", property(lambda self: 0.0))


@pytest.mark.parametrize("response", StreamThreadExceptionResponse, ids=lambda response: response.name)
@pytest.mark.parametrize("at", [1, 100], ids=["first", "hundredth"])
@pytest.mark.parametrize("callback", CALLBACKS)
def test_should_have_the_handler_decide_on_what_a_callback_raises(
    clock: list[float], quick: None, callback: str, at: int, response: StreamThreadExceptionResponse
) -> None:
    error = Away("the service is away")
    raising = Raising(at, error)
    client = Client(clock, response, callback, raising)
    for _ in range(4 * at + 10):
        if raising.calls >= at:
            break
        client.go_on()
    client.world.settle(10)
    assert raising.calls >= at
    (asked,) = client.asked
    assert isinstance(asked, StreamsError)
    assert asked.__cause__ is error
    assert callback.replace("_", " ").split()[0] in str(asked)
    streams = client.streams
    if response is REPLACE_THREAD:
        assert not client.is_over
        assert streams.failure is None
        client.restores_on = False
        client.world.settle()
        assert streams.state is State.RUNNING
        consumed_once(client.world)
    else:
        assert streams.failure is asked
        assert client.is_over is (response is SHUTDOWN_CLIENT)
        assert client.world.loop._run.is_halted is (response is SHUTDOWN_APPLICATION)


@pytest.mark.parametrize(
    "error", [BrokerError("away"), TaskMigratedError("gone"), ThreadLostError("gone"), SystemExit(1)], ids=repr
)
@pytest.mark.parametrize("callback", [STATE_LISTENER, "on_restore_end", "on_batch_loaded"])
def test_should_not_take_what_a_callback_raises_for_a_failure_that_passes(
    clock: list[float], callback: str, error: BaseException
) -> None:
    raising = Raising(1, error)
    client = Client(clock, SHUTDOWN_CLIENT, callback, raising)
    client.world.settle(10)
    client.go_on()
    assert [asked.__cause__ for asked in client.asked] == [error]
    assert client.is_over


def test_should_replace_the_thread_whose_task_has_a_restore_listener_that_raises(clock: list[float]) -> None:
    client = Client(clock, REPLACE_THREAD, "on_restore_start", Raising(1, Away()))
    before = set(client.world.jobs_of.workers)
    client.world.settle()
    assert len(client.world.jobs_of.workers) == 2
    assert client.world.jobs_of.workers.keys() != before
    assert client.streams._threads.failed == 1


def test_should_go_on_where_a_restore_listener_raises_while_a_thread_is_released(clock: list[float], quick: None) -> None:
    """That is within the recovery from another failure."""
    client = Client(clock, REPLACE_THREAD, "on_restore_suspended", Raising(1, Away()))
    client.restores_on = True
    client.world.until(lambda: client.world.jobs_of.processes[0].tasks or client.world.jobs())
    for _ in range(20):
        client.world.step()
        client.world.do_background()
        for job in client.world.jobs():
            client.world.jobs_of.finish(job)
    client.world.jobs_of.lose_executor(0)
    client.go_on()
    assert [type(error.__cause__) for error in client.asked] == [Away]
    client.restores_on = False
    client.world.settle()
    assert client.streams.state is State.RUNNING


# -- copies


@pytest.mark.parametrize(
    ("error", "is_asked"),
    [(Away("a store of the user's"), True), (BrokerError("away"), False), (OSError("no space left"), False)],
    ids=["store", "brokers", "disk"],
)
def test_should_have_the_handler_decide_on_a_copy_whose_store_raises(
    clock: list[float], error: Exception, is_asked: bool
) -> None:
    client = Client(clock, SHUTDOWN_CLIENT, "on_update_start", Raising(0, error))
    client.world.settle(10)
    client.world.events.standbys.on_failed(TaskId(9, 0), Failure.of(error))
    client.world.settle(10)
    assert [type(asked.__cause__) for asked in client.asked] == [Away] * is_asked
    assert client.is_over is is_asked


# -- handlers


@pytest.mark.parametrize("error", [ValueError("of the handler"), SystemExit(1)], ids=repr)
def test_should_shut_down_where_the_handler_itself_raises(
    clock: list[float], error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(clock, None, STATE_LISTENER, Raising(1, Away()))
    client.streams._handler = Raising(1, error)
    client.world.settle(50)
    assert client.is_over
    assert isinstance(client.streams.failure.__cause__, Away)
    assert "The uncaught exception handler failed" in caplog.text


@pytest.mark.parametrize("answer", [None, "REPLACE_THREAD", 7])
def test_should_shut_down_where_the_handler_answers_something_else(clock: list[float], answer: Any) -> None:
    client = Client(clock, answer, STATE_LISTENER, Raising(1, Away()))
    client.world.settle(50)
    assert client.is_over


# -- the loop


@pytest.mark.parametrize("error", [Away("in the loop"), SystemExit(1)], ids=repr)
def test_should_end_in_error_when_the_event_loop_itself_fails(clock: list[float], error: BaseException) -> None:
    client = Client(clock, REPLACE_THREAD, STATE_LISTENER, Raising(0, error))
    released: list[bool] = []
    client.streams._release = released.append
    client.world.loop.step = Raising(1, error)  # type: ignore[method-assign]
    client.streams._run_loop()
    assert client.asked == [error]
    assert client.streams.failure is error
    assert (client.streams.state, released) == (State.ERROR, [False])


# -- before the loop and after it


@pytest.fixture
def streams() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(BYTES, BYTES)).to("out")
    return KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "nobody:1"})


def raises_on(*states: State) -> Callable[[State, State], None]:
    def listener(new: State, old: State) -> None:
        if new in states:
            raise Away(new.name)

    return listener


def test_should_raise_from_start_what_the_state_listener_raises_there(streams: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []
    monkeypatch.setattr(streams, "_start", lambda: started.append(True))
    streams.set_state_listener(raises_on(State.REBALANCING))
    with pytest.raises(StreamsError, match="the state listener, called for CREATED to REBALANCING, failed") as raised:
        streams.start()
    assert isinstance(raised.value.__cause__, Away)
    assert (started, streams.state, streams.failure) == ([], State.ERROR, raised.value)


def test_should_release_everything_although_the_state_listener_raises_on_the_way_to_error(
    streams: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released: list[bool] = []

    def start() -> None:
        raise ConnectionError("no brokers")

    monkeypatch.setattr(streams, "_start", start)
    monkeypatch.setattr(streams, "_release", released.append)
    streams.set_state_listener(raises_on(State.PENDING_ERROR, State.ERROR))
    with pytest.raises(ConnectionError, match="no brokers"):
        streams.start()
    assert (streams.state, released) == (State.ERROR, [True])
    logged = [record.exc_info[1].__cause__ for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]
    assert [str(error) for error in logged] == ["PENDING_ERROR", "ERROR"]


@pytest.mark.parametrize("started", [True, False])
def test_should_close_although_the_state_listener_raises_meanwhile(
    streams: Any, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    released: list[bool] = []
    monkeypatch.setattr(streams, "_start", lambda: None)
    monkeypatch.setattr(streams, "_release", lambda: released.append(True))
    streams.set_state_listener(raises_on(State.PENDING_SHUTDOWN, State.NOT_RUNNING))
    if started:
        streams.start()
    assert streams.close()
    assert (streams.state, released, streams.failure) == (State.NOT_RUNNING, [True], None)
