"""`wait_until_running` and `await_termination`, with states set by hand."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, State, StreamsBuilder
from penstock.errors import StreamsNotStartedError, StreamsStoppedError, StreamsTimeoutError


@pytest.fixture
def streams() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).to("out")
    return KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "nobody:1", "client.id": "me"})


def _go(streams: Any, *states: State) -> None:
    for state in states:
        streams._life.become(state)


def _fail(streams: Any, error: BaseException) -> None:
    streams._failure = error
    _go(streams, State.PENDING_ERROR, State.ERROR)


def test_should_return_when_the_application_runs(streams: Any) -> None:
    _go(streams, State.REBALANCING)
    threading.Thread(target=_go, args=(streams, State.RUNNING)).start()
    streams.wait_until_running()
    assert streams.state is State.RUNNING


def test_should_raise_the_failure(streams: Any) -> None:
    _go(streams, State.REBALANCING)
    threading.Thread(target=_fail, args=(streams, ValueError("no"))).start()
    with pytest.raises(ValueError, match="no"):
        streams.wait_until_running()
    with pytest.raises(ValueError, match="no"):
        streams.await_termination()


def test_should_raise_if_another_instance_stopped_all(streams: Any) -> None:
    _go(streams, State.REBALANCING, State.PENDING_ERROR, State.ERROR)
    with pytest.raises(StreamsStoppedError, match="another instance asked all instances"):
        streams.await_termination()


def test_should_not_wait_longer_than_asked(streams: Any) -> None:
    _go(streams, State.REBALANCING)
    with pytest.raises(StreamsTimeoutError, match="me is still starting after 0 s") as raised:
        streams.wait_until_running(0)
    assert isinstance(raised.value, TimeoutError)
    assert streams.await_termination(0) is False


def test_should_tell_that_the_application_was_closed(streams: Any) -> None:
    _go(streams, State.REBALANCING, State.PENDING_SHUTDOWN, State.NOT_RUNNING)
    assert streams.await_termination() is True
    with pytest.raises(StreamsStoppedError, match="me was closed: it is NOT_RUNNING"):
        streams.wait_until_running()


def test_should_refuse_to_wait_before_the_start(streams: Any) -> None:
    for wait in (streams.wait_until_running, streams.await_termination):
        with pytest.raises(StreamsNotStartedError, match=r"has not been started. Call start\(\) first"):
            wait()


def test_should_start_nothing_as_a_context_manager_and_close_at_the_end(streams: Any) -> None:
    with streams as entered:
        assert (entered, streams.state) == (streams, State.CREATED)
    assert streams.state is State.NOT_RUNNING
