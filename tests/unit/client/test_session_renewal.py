"""What an application does when its session has ended; session, threads and group are played."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, State, StreamsBuilder
from penstock.client.kafka_streams import StreamThreadExceptionResponse
from penstock.client.session_renewal import renew_session
from penstock.spark.driver.placement import NoExecutorsError, SessionStoppedError
from tests.harness.waiting import LIMIT


class Use:
    """A session that ends, and can be made again, unless it is the user's."""

    def __init__(self, *outcomes: bool | Exception, is_renewable: bool = True) -> None:
        self._outcomes = list(outcomes)
        self.is_renewable = is_renewable
        self.context = SimpleNamespace(name="first")

    def renew(self) -> bool:
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        self.context = SimpleNamespace(name="second")
        return outcome

    def release(self) -> None: ...


class SparkThreads:
    """Threads on a session."""

    def __init__(self, *errors: Exception, has_ended: bool = True) -> None:
        self._errors = list(errors)
        self.has_ended = has_ended
        self.lacks_executors = False
        self.did: list[str] = []

    def renew(self, context: Any, check: Callable[[], None]) -> None:
        self.did.append("waits for executors")
        while self.lacks_executors:
            check()
        self.did.pop()
        if self._errors:
            raise self._errors.pop(0)
        self.did.append(f"renewed on {context.name}")
        self.has_ended = False

    def close(self, seconds: float) -> None:
        self.did.append("closed")

    def forsake(self) -> None:
        self.did.append("forsaken")


class Life:
    """Of an application that runs, or is being closed; time does not pass."""

    def __init__(self, waits: list[float] | None = None, is_closed: bool = False) -> None:
        self._waits, self._is_closed = [] if waits is None else waits, is_closed

    def wait_running(self, seconds: float) -> bool:
        self._waits.append(seconds)
        return not self._is_closed

    def refuse_if_closing(self) -> None: ...


def test_should_try_again_until_there_is_a_session_with_threads() -> None:
    use, spark_threads, waits = Use(OSError("no memory"), True), SparkThreads(NoExecutorsError("none yet")), list[float]()
    assert renew_session(use, spark_threads, 60, Life(waits))  # type: ignore[arg-type]
    assert spark_threads.did == ["renewed on second"]
    assert waits == [0.2, 0.4]


def test_should_give_up_after_its_patience_and_say_why() -> None:
    use = Use(OSError("no memory\nat org.apache"))
    with pytest.raises(SessionStoppedError, match=r"for 0 s \(task.timeout.ms\): no memory\. Find out"):
        renew_session(use, SparkThreads(), 0.1, Life())  # type: ignore[arg-type]


def test_should_stop_trying_when_the_application_is_closed() -> None:
    assert not renew_session(Use(OSError("no memory")), SparkThreads(), 60, Life(is_closed=True))  # type: ignore[arg-type]


@pytest.fixture
def streams() -> Any:
    """An application that runs, without anything that runs it."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).to("out")
    made: Any = KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "b:1"})
    made._life.become(State.REBALANCING)
    made._life.become(State.RUNNING)
    made.asked = []
    made._handler = lambda error: made.asked.append(error) or StreamThreadExceptionResponse.REPLACE_THREAD
    return made


def test_should_go_on_on_a_new_session_without_asking_the_handler(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(True), SparkThreads()
    tables = streams._tables = SimpleNamespace(renew=lambda: tables_on.append(streams._session.context.name))
    tables_on: list[str] = []
    assert tables is streams._tables
    assert streams._on_failure(SessionStoppedError(), 0)
    assert (streams.state, streams.asked, streams.failure) == (State.REBALANCING, [], None)
    assert streams._spark_threads.did == ["renewed on second"]
    assert tables_on == ["second"]
    assert streams._threads.failed == 0
    assert streams._on_failure(SessionStoppedError(), 1), "another thread that has failed with it"
    assert streams._spark_threads.did == ["renewed on second"]


def test_should_see_the_end_of_the_session_behind_any_failure(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(True), SparkThreads()
    assert streams._on_failure(AttributeError("'NoneType' object has no attribute 'sc'"), None)
    assert streams.asked == []


@pytest.mark.parametrize("use", [Use(True, is_renewable=False), Use(False)])
def test_should_end_with_a_session_that_is_not_made_again(streams: Any, use: Use) -> None:
    streams._session, streams._spark_threads = use, SparkThreads()
    assert not streams._on_failure(RuntimeError("refused"), 0)
    assert isinstance(streams.failure, SessionStoppedError)
    assert streams.asked == [streams.failure]


def test_should_end_where_no_session_can_be_made_for_too_long(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(OSError("no memory")), SparkThreads()
    streams._config._values["task.timeout.ms"] = 100
    assert not streams._on_failure(SessionStoppedError(), 0)
    assert "no memory" in str(streams.failure)


def test_should_be_closed_while_no_session_can_be_made(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(OSError("no memory")), SparkThreads()
    went_on: list[bool] = []
    renewing = threading.Thread(target=lambda: went_on.append(streams._on_failure(SessionStoppedError(), 0)))
    renewing.start()
    streams._life.become(State.PENDING_SHUTDOWN)
    renewing.join(LIMIT)
    assert went_on == [False]
    assert streams.failure is None


def test_should_be_closed_while_a_new_session_has_no_executors(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(True), SparkThreads()
    streams._spark_threads.lacks_executors = True
    went_on: list[bool] = []
    renewing = threading.Thread(target=lambda: went_on.append(streams._on_failure(SessionStoppedError(), 0)), daemon=True)
    renewing.start()
    while not streams._spark_threads.did:
        renewing.join(0.01)
    streams._life.become(State.PENDING_SHUTDOWN)
    renewing.join(LIMIT)
    assert went_on == [False]
    assert streams.failure is None


def test_should_make_no_session_for_an_application_that_is_being_closed(streams: Any) -> None:
    streams._session, streams._spark_threads = Use(True), SparkThreads()
    streams._life.become(State.PENDING_SHUTDOWN)
    assert not streams._on_failure(SessionStoppedError(), 0)
    assert (streams._spark_threads.did, streams.failure) == ([], None)


@pytest.mark.parametrize(("has_ended", "order"), [(True, ["left", "forsaken", "left"]), (False, ["closed", "left"])])
def test_should_leave_the_group_first_where_the_session_has_ended(streams: Any, has_ended: bool, order: list[str]) -> None:
    streams._session, streams._spark_threads = Use(True), SparkThreads(has_ended=has_ended)
    streams._member = SimpleNamespace(close=lambda leave=None: streams._spark_threads.did.append("left"))
    streams._release()
    assert streams._spark_threads.did == order
