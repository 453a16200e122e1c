"""An application that is closed before it has started; the steps of its start are played."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, State, StreamsBuilder
from tests.harness.waiting import LIMIT


@pytest.fixture
def streams() -> Any:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(str, str)).to("out")
    return KafkaStreams(builder.build(), {"application.id": "app", "bootstrap.servers": "nobody:1"})


def test_should_start_no_further_when_it_is_closed(streams: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, closed, closing = list[str](), list[bool](), list[threading.Thread]()

    def close() -> None:
        closed.append(streams.close())

    def start() -> None:
        thread = threading.Thread(target=close)
        closing.append(thread)
        thread.start()
        while streams.state is not State.PENDING_SHUTDOWN:
            thread.join(0.01)
        reached.append("brokers")
        streams._say_starting("Spark")
        reached.append("Spark")

    monkeypatch.setattr(streams, "_start", start)
    streams.start()
    closing[0].join(LIMIT)
    assert (reached, closed, streams.state, streams.failure) == (["brokers"], [True], State.NOT_RUNNING, None)


def test_should_not_wait_within_start_for_its_own_return(streams: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[bool]()

    def start() -> None:
        closed.append(streams.close())  # as a signal's handler does, which runs in whatever the main thread is about
        streams._say_starting("Spark")

    monkeypatch.setattr(streams, "_start", start)
    streams.start()
    assert (closed, streams.state, streams.failure) == ([False], State.NOT_RUNNING, None)
    assert streams.close()


def test_should_not_begin_when_its_listener_has_closed_it(streams: Any) -> None:
    streams.set_state_listener(lambda new, _: new is State.REBALANCING and streams.close())
    streams.start()
    assert (streams.state, streams.failure) == (State.NOT_RUNNING, None)
