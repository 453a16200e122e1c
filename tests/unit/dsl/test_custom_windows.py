"""Windows of the user's own: a day in a time zone, which is not always of the same length."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindow,
    TopologyTestDriver,
    Window,
    WindowedSerdes,
    Windows,
)

TEXT, LONG = Serdes.string(), Serdes.long()
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


class Days(Windows):
    """Days from midnight to midnight in a time zone: of 23, 24 or 25 hours."""

    def __init__(self, zone: ZoneInfo, grace: timedelta) -> None:
        self.zone = zone
        self.grace_period_ms = grace // timedelta(milliseconds=1)

    @property
    def size(self) -> int:
        return 25 * HOUR

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        day = datetime.fromtimestamp(timestamp / 1000, self.zone).date()
        start, end = (milliseconds(datetime.combine(at, datetime.min.time(), self.zone)) for at in (day, day + timedelta(days=1)))
        return {start: TimeWindow(start, end)}


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def berlin(*at: int) -> int:
    return milliseconds(datetime(*at, tzinfo=BERLIN))  # type: ignore[arg-type,misc]


def test_should_count_by_the_days_of_a_time_zone() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(Days(BERLIN, timedelta(hours=1))).count("days")
    counts.to_stream().to("out", Produced(WindowedSerdes.time_windowed(TEXT, 25 * HOUR), LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        saturday, sunday, monday = berlin(2026, 10, 24), berlin(2026, 10, 25), berlin(2026, 10, 26)
        assert monday - sunday == 25 * HOUR  # clocks go back
        for timestamp in (saturday, sunday - 1, sunday, sunday + 24 * HOUR + 1, monday - 1, monday):
            topic.pipe_input("a", "x", timestamp)
        store = driver.get_window_store("days")
        assert list(store.fetch("a", saturday, monday)) == [(saturday, 2), (sunday, 3), (monday, 1)]
        topic.pipe_input("a", "late", sunday)
        topic.pipe_input("a", "later", saturday)
        assert list(store.fetch("a", saturday, monday)) == [(saturday, 2), (sunday, 4), (monday, 1)]
        last = driver.create_output_topic("out", WindowedSerdes.time_windowed(TEXT, 25 * HOUR), LONG).read_key_values()[-1]
        assert (last[0].key, last[0].window.start, last[1]) == ("a", sunday, 4)


def test_should_give_final_results_of_windows_of_ones_own() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key(Grouped(None, TEXT, TEXT))
    counts = grouped.windowed_by(Days(BERLIN, timedelta(0))).count("days")
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    final.to_stream(lambda windowed, count: windowed.key).to("out", Produced(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        sunday = berlin(2026, 10, 25)
        topic.pipe_input("a", "x", sunday)
        topic.pipe_input("a", "x", sunday + 25 * HOUR - 1)
        topic.pipe_input("b", "x", sunday + 25 * HOUR)
        assert driver.create_output_topic("out", TEXT, LONG).read_key_values() == [("a", 2)]


class Unfinished(Windows):
    grace_period_ms = 0

    def size(self) -> int:  # type: ignore[override]
        return 10

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        return {}


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        (Unfinished(), "Unfinished.size must be a number of milliseconds"),
        (JoinWindows(5, grace=0), "a subclass of Windows"),
        (5, "a subclass of Windows"),
    ],
)
def test_should_refuse_windows_that_cannot_be_aggregated_over(windows: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        StreamsBuilder().stream("in", Consumed(TEXT, TEXT)).group_by_key().windowed_by(windows)
