"""What can be said about the end of an application."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock import CloseOptions, ConfigError, Consumed, KafkaStreams, Serdes, State, StreamsBuilder


@pytest.mark.parametrize("timeout", [timedelta(seconds=2), 2_000])
def test_should_take_a_timeout_as_a_duration_or_milliseconds(timeout: Any) -> None:
    assert CloseOptions(timeout).seconds == CloseOptions.of(timeout).seconds == 2.0
    assert CloseOptions.of(CloseOptions(timeout, leave_group=True)) == CloseOptions(timeout, leave_group=True)
    assert CloseOptions().seconds is None


def test_should_say_nothing_of_the_group_unless_asked() -> None:
    assert CloseOptions(1).leave_group is None
    assert CloseOptions(leave_group=False).leave_group is False


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": -1}, ConfigError),
        ({"timeout": timedelta(seconds=-1)}, ConfigError),
        ({"timeout": 1.5}, TypeError),
        ({"leave_group": "yes"}, TypeError),
    ],
)
def test_should_refuse_what_makes_no_sense(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        CloseOptions(**options)


def test_should_close_with_options() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), Serdes.string())).to("out")
    streams = KafkaStreams(builder.build(), {"application.id": "never", "bootstrap.servers": "nowhere:9092"})
    assert streams.close(CloseOptions(timeout=timedelta(seconds=10), leave_group=True))
    assert streams.state is State.NOT_RUNNING
