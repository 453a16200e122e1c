from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.change import Change
from penstock.operators import KStreamSessionWindowAggregate
from penstock.operators.time_tracker import EMIT_INTERVAL_WINDOWED_AGGREGATION
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, SessionWindow, SessionWindows, Windowed
from tests.unit.operators.operator_kit import FakeContext, FakeSessionStore, Runner

CLOSE = EmitStrategy.on_window_close()


def _supplier(gap: int, grace: int, strategy: EmitStrategy) -> KStreamSessionWindowAggregate:
    return KStreamSessionWindowAggregate(
        SessionWindows(gap, grace=grace),
        "store",
        strategy,
        lambda: 0,
        lambda key, value, agg: agg + (value or 1),
        lambda key, one, two: one + two,
    )


def _runner(gap: int, grace: int, strategy: EmitStrategy = EmitStrategy.on_window_update(), old: bool = False) -> Runner:  # noqa: B008
    supplier = _supplier(gap, grace, strategy)
    if old:
        supplier.enable_sending_old_values()
    return Runner(supplier, FakeContext({"store": FakeSessionStore()}, {EMIT_INTERVAL_WINDOWED_AGGREGATION: 0}))


def _session(start: int, end: int, key: str = "k") -> Windowed[str]:
    return Windowed(key, SessionWindow(start, end))


def test_should_merge_sessions_and_take_the_merged_ones_back() -> None:
    runner = _runner(10, 100, old=True)

    assert runner.pipe("k", 1, 0) == [(_session(0, 0), Change(1, None), 0)]
    assert runner.pipe("k", 2, 15) == [(_session(15, 15), Change(2, None), 15)]
    assert runner.pipe("k", 4, 8) == [
        (_session(0, 0), Change(None, 1), 0),
        (_session(15, 15), Change(None, 2), 15),
        (_session(0, 15), Change(7, None), 15),
    ]


def test_should_replace_a_session_of_the_same_moment_without_taking_it_back() -> None:
    runner = _runner(10, 100, old=True)
    runner.pipe("k", 1, 5)

    assert runner.pipe("k", 2, 5) == [(_session(5, 5), Change(3, None), 5)]


def test_should_leave_sessions_apart_that_are_further_than_the_gap() -> None:
    runner = _runner(10, 100)
    runner.pipe("k", 1, 0)

    assert runner.pipe("k", 1, 11) == [(_session(11, 11), Change(1, None), 11)]
    assert runner.pipe("k", 1, 10)[-1] == (_session(0, 11), Change(3, None), 11)


def test_should_drop_a_record_whose_session_has_closed(caplog: pytest.LogCaptureFixture) -> None:
    runner = _runner(10, 5)
    runner.pipe("k", 1, 50)
    assert len(runner.pipe("k", 1, 35)) == 1
    runner.pipe("k", 1, 51)

    with caplog.at_level(logging.WARNING, "penstock.operators"):
        assert runner.pipe("j", 1, 35) == []
    assert caplog.messages == [
        "Skipping record for expired window. topic=[topic] partition=[0] offset=[3] timestamp=[35] window=[35,35] "
        "expiration=[36] streamTime=[51]"
    ]


def test_should_take_a_late_record_into_a_session_that_is_still_open() -> None:
    runner = _runner(10, 0)
    runner.pipe("k", 1, 20)
    runner.pipe("j", 1, 29)

    assert runner.pipe("k", 1, 12)[-1] == (_session(12, 20), Change(2, None), 20)


def test_should_aggregate_null_values_and_drop_null_keys() -> None:
    runner = _runner(10, 0)

    assert runner.pipe("k", None, 1) == [(_session(1, 1), Change(1, None), 1)]
    assert runner.pipe(None, 1, 1) == []
    assert runner.context.dropped == ["null key"]


def test_should_forward_updates_without_headers() -> None:
    runner = _runner(10, 0)
    seen: list[Any] = []
    runner.context.on_forward = lambda record: seen.append(record.headers)
    runner.pipe("k", 1, 1, headers=(("h", b"1"),))

    assert seen == [()]


def test_should_emit_a_session_once_after_it_closed() -> None:
    runner = _runner(10, 5, CLOSE)

    assert runner.pipe("k", 1, 0) == []
    assert runner.pipe("k", 1, 3) == []
    assert runner.pipe("j", 1, 18) == []
    assert runner.pipe("j", 1, 19) == [(_session(0, 3), Change(2, None), 3)]
    assert runner.pipe("j", 1, 20) == []
    assert runner.pipe("j", 1, 36) == [(_session(18, 20, "j"), Change(3, None), 20)]


def test_should_go_on_where_it_was_when_the_task_moves() -> None:
    runner = _runner(10, 5, CLOSE)
    runner.pipe("k", 1, 0)
    runner.pipe("j", 1, 19)
    moved = FakeContext(runner.context.stores, runner.context.app_configs)
    moved.metadata = dict(runner.context.metadata)
    after = Runner(_supplier(10, 5, CLOSE), moved)

    assert after.pipe("j", 1, 3) == []
    assert moved.dropped == [""]
    assert after.pipe("j", 1, 40) == [(_session(19, 19, "j"), Change(1, None), 19)]


def test_should_look_up_a_session_of_the_table() -> None:
    store = FakeSessionStore()
    store.put(_session(0, 5), 7)
    view = _supplier(10, 0, CLOSE).view()
    getter = view.get()
    getter.init(FakeContext({"store": store}))

    assert view.store_names == ("store",)
    assert getter.get(_session(0, 5)) == ValueAndTimestamp(7, 5)
    assert getter.get(_session(0, 6)) is None


@given(timestamps=st.lists(st.integers(0, 100), min_size=1, max_size=15))
@hypothesis_settings(max_examples=80, deadline=None)
def test_should_find_the_sessions_whatever_the_order(timestamps: list[int]) -> None:
    runner = _runner(10, 1000)
    for timestamp in timestamps:
        runner.pipe("k", 1, timestamp)

    expected: list[list[int]] = []
    for timestamp in sorted(timestamps):
        if expected and timestamp - expected[-1][-1] <= 10:
            expected[-1].append(timestamp)
        else:
            expected.append([timestamp])
    sessions = {(start, end): count for (_, end, start), count in runner.context.stores["store"].entries.items()}
    assert sessions == {(session[0], session[-1]): len(session) for session in expected}
