from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.operators import (
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    KStreamKStreamSelfJoin,
    TimeTrackerSupplier,
)
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.windows import JoinWindows
from tests.unit.operators.operator_kit import FakeContext, FakeWindowStore, Runner


def _join(key: Any, one: Any, two: Any) -> str:
    return f"{one}+{two}"


def _runner(windows: JoinWindows, context: FakeContext | None = None) -> Runner:
    context = context or FakeContext({"store": FakeWindowStore(windows.size, duplicates=True)})
    return Runner(KStreamKStreamSelfJoin("store", windows, _join, windows.size + windows.grace_period_ms), context)


def _pipe(runner: Runner, key: Any, value: Any, timestamp: int) -> list[tuple[Any, Any, int]]:
    output = runner.pipe(key, value, timestamp)
    if key is not None:
        runner.context.stores["store"].put(key, ValueTimestampHeaders(value, timestamp), timestamp)
    return output


def test_should_join_a_record_with_those_before_it_and_with_itself() -> None:
    runner = _runner(JoinWindows(10, grace=0))

    assert _pipe(runner, "k", "a", 0) == [("k", "a+a", 0)]
    assert _pipe(runner, "k", "b", 5) == [("k", "b+a", 5), ("k", "a+b", 5), ("k", "b+b", 5)]


def test_should_emit_itself_before_the_results_of_later_records() -> None:
    runner = _runner(JoinWindows(10, grace=0))
    _pipe(runner, "k", "later", 8)

    assert _pipe(runner, "k", "a", 3) == [("k", "a+later", 8), ("k", "a+a", 3), ("k", "later+a", 8)]


def test_should_not_join_an_expired_record_with_itself() -> None:
    runner = _runner(JoinWindows(10, grace=5))
    _pipe(runner, "k", "a", 100)

    # Retention is 25: a record is expired at 100 - 25 + 1 and before.
    assert _pipe(runner, "j", "b", 77) == [("j", "b+b", 77)]
    assert _pipe(runner, "i", "c", 76) == []


def test_should_remember_what_is_expired_when_the_task_moves() -> None:
    windows = JoinWindows(10, grace=5)
    runner = _runner(windows)
    _pipe(runner, "k", "a", 100)
    moved = FakeContext(runner.context.stores)
    moved.metadata = dict(runner.context.metadata)

    assert _pipe(_runner(windows, moved), "i", "c", 76) == []


def test_should_drop_null_keys_and_values() -> None:
    runner = _runner(JoinWindows(10, grace=0))

    assert _pipe(runner, None, "a", 0) == []
    assert _pipe(runner, "k", None, 0) == []
    assert runner.context.dropped == ["null key or value"] * 2


@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=12),
    before=st.integers(0, 10),
    after=st.integers(0, 10),
)
@hypothesis_settings(max_examples=80, deadline=None)
def test_should_give_what_an_inner_join_of_the_stream_with_itself_gives(
    records: list[tuple[str, int]], before: int, after: int
) -> None:
    windows = JoinWindows(before=before, after=after, grace=1000)
    self_join = _runner(windows)
    stores = {"left": FakeWindowStore(windows.size, duplicates=True), "right": FakeWindowStore(windows.size, duplicates=True)}
    context = FakeContext(stores)
    trackers = TimeTrackerSupplier()
    left = Runner(KStreamKStreamJoinLeftSide(windows, _join, False, trackers, "right"), context)
    right = Runner(KStreamKStreamJoinRightSide(windows, lambda k, r, v: _join(k, v, r), False, trackers, "left"), context)

    for number, (key, timestamp) in enumerate(records):
        expected = left.pipe(key, number, timestamp)
        stores["left"].put(key, ValueTimestampHeaders(number, timestamp), timestamp)
        expected += right.pipe(key, number, timestamp)
        stores["right"].put(key, ValueTimestampHeaders(number, timestamp), timestamp)
        assert sorted(_pipe(self_join, key, number, timestamp)) == sorted(expected)
