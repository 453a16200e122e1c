from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.change import Change
from penstock.operators import KStreamSlidingWindowAggregate
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION
from penstock.windows import EmitStrategy, SlidingWindows, TimeWindow, Windowed
from tests.unit.operators.operator_kit import FakeContext, FakeWindowStore, Runner


def _runner(difference: int, grace: int, strategy: EmitStrategy = EmitStrategy.on_window_update()) -> Runner:  # noqa: B008
    supplier = KStreamSlidingWindowAggregate(
        SlidingWindows(difference, grace=grace), "store", strategy, lambda: "0", lambda key, value, agg: f"{agg}+{value}"
    )
    return Runner(supplier, FakeContext({"store": FakeWindowStore(difference)}, {EMIT_INTERVAL_WINDOWED_AGGREGATION: 0}))


def _windows(output: list[tuple[Any, Any, int]]) -> list[tuple[int, int, str, int]]:
    return [(key.window.start, key.window.end, change.new_value, timestamp) for key, change, timestamp in output]


def test_should_create_left_and_right_windows() -> None:
    runner = _runner(10, 100)

    assert _windows(runner.pipe("k", "a", 20)) == [(10, 20, "0+a", 20)]
    assert _windows(runner.pipe("k", "b", 25)) == [(21, 31, "0+b", 25), (15, 25, "0+a+b", 25)]
    assert _windows(runner.pipe("k", "c", 22)) == [
        (21, 31, "0+b+c", 25),
        (15, 25, "0+a+b+c", 25),
        (12, 22, "0+a+c", 22),
        (23, 33, "0+b", 25),
    ]


def test_should_gather_early_records_in_the_first_window() -> None:
    runner = _runner(10, 100)

    assert _windows(runner.pipe("k", "a", 5)) == [(0, 10, "0+a", 5)]
    assert _windows(runner.pipe("k", "b", 2)) == [(3, 13, "0+a", 5), (0, 10, "0+a+b", 5)]
    assert _windows(runner.pipe("k", "c", 8)) == [(3, 13, "0+a+c", 8), (6, 16, "0+c", 8), (0, 10, "0+a+b+c", 8)]


def test_should_drop_a_record_whose_last_window_has_closed(caplog: pytest.LogCaptureFixture) -> None:
    runner = _runner(10, 5)
    runner.pipe("k", "a", 50)

    with caplog.at_level(logging.WARNING, "penstock.operators"):
        assert runner.pipe("k", "late", 34) == []
    assert caplog.messages == [
        "Skipping record for expired window. topic=[topic] partition=[0] offset=[1] timestamp=[34] window=[34,44] "
        "expiration=[45] streamTime=[50]"
    ]


def test_should_skip_single_windows_that_have_closed(caplog: pytest.LogCaptureFixture) -> None:
    runner = _runner(10, 5)
    runner.pipe("k", "a", 50)

    with caplog.at_level(logging.WARNING, "penstock.operators"):
        assert _windows(runner.pipe("k", "b", 44)) == [(40, 50, "0+a+b", 50), (45, 55, "0+a", 50)]
    assert "timestamp=[44] window=[34,44] expiration=[45]" in caplog.text
    assert runner.pipe("j", "c", 45) == [(Windowed("j", TimeWindow(35, 45)), Change("0+c", None), 45)]


def test_should_drop_null_keys_and_null_values() -> None:
    runner = _runner(10, 0)

    assert runner.pipe(None, "a", 1) == []
    assert runner.pipe("k", None, 1) == []
    assert runner.context.dropped == ["null key or value"] * 2


def test_should_emit_final_results_after_the_end_of_a_window() -> None:
    runner = _runner(10, 0, EmitStrategy.on_window_close())

    assert runner.pipe("k", "a", 20) == []
    assert runner.pipe("j", "b", 21) == [(Windowed("k", TimeWindow(10, 20)), Change("0+a", None), 20)]


def test_should_not_emit_final_results_for_an_early_record() -> None:
    runner = _runner(10, 0, EmitStrategy.on_window_close())
    runner.pipe("k", "a", 0)

    assert runner.pipe("k", "b", 9) == []
    assert runner.pipe("j", "c", 11) == [(Windowed("k", TimeWindow(0, 10)), Change("0+a+b", None), 9)]


@given(timestamps=st.lists(st.integers(0, 60), min_size=1, max_size=12))
@hypothesis_settings(max_examples=80, deadline=None)
def test_should_hold_exactly_the_records_of_each_window(timestamps: list[int]) -> None:
    difference = 10
    supplier = KStreamSlidingWindowAggregate(
        SlidingWindows(difference, grace=1000),
        "store",
        EmitStrategy.on_window_update(),
        frozenset,
        lambda key, value, agg: agg | {value},
    )
    store = FakeWindowStore(difference)
    runner = Runner(supplier, FakeContext({"store": store}))
    for number, timestamp in enumerate(timestamps):
        runner.pipe("k", (timestamp, number), timestamp)

    records = {(timestamp, number) for number, timestamp in enumerate(timestamps)}
    found = {start: aggregate.value for _, start, aggregate in store.entries}
    starts = {max(0, timestamp - difference) for timestamp in timestamps} | {timestamp + 1 for timestamp in timestamps}
    expected = {start: {record for record in records if start <= record[0] <= start + difference} for start in starts}
    assert found == {start: held for start, held in expected.items() if held}
