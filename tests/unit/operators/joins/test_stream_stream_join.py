from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.operators import (
    KStreamJoinWindow,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    TimeTrackerSupplier,
)
from penstock.operators.time_tracker import EMIT_INTERVAL_OUTER_JOIN
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from penstock.windows import JoinWindows
from tests.unit.operators.operator_kit import FakeContext, FakeListStore, FakeWindowStore, Runner


def _join(key: Any, left: Any, right: Any) -> str:
    return f"{left}+{right}"


def _reversed(key: Any, right: Any, left: Any) -> str:
    return _join(key, left, right)


class Join:
    """Both sides of a join in one task."""

    def __init__(
        self,
        windows: JoinWindows,
        left_outer: bool = False,
        right_outer: bool = False,
        interval_ms: int = 0,
        context: FakeContext | None = None,
    ) -> None:
        if context is None:
            stores = {
                "left": FakeWindowStore(windows.size, duplicates=True),
                "right": FakeWindowStore(windows.size, duplicates=True),
                "outer": FakeListStore(),
            }
            context = FakeContext(stores, {EMIT_INTERVAL_OUTER_JOIN: interval_ms})
        self.context = context
        trackers = TimeTrackerSupplier()
        outer = "outer" if left_outer or right_outer else None
        self._left = Runner(KStreamKStreamJoinLeftSide(windows, _join, left_outer, trackers, "right", outer), context)
        self._right = Runner(KStreamKStreamJoinRightSide(windows, _reversed, right_outer, trackers, "left", outer), context)

    def left(self, key: Any, value: Any, timestamp: int) -> list[tuple[Any, Any, int]]:
        output = self._left.pipe(key, value, timestamp)
        self._keep("left", key, value, timestamp)
        return output

    def right(self, key: Any, value: Any, timestamp: int) -> list[tuple[Any, Any, int]]:
        output = self._right.pipe(key, value, timestamp)
        self._keep("right", key, value, timestamp)
        return output

    def close(self) -> None:
        self._left.processor.close()
        self._right.processor.close()

    def _keep(self, side: str, key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            kept = None if value is None else ValueTimestampHeaders(value, timestamp)
            self.context.stores[side].put(key, kept, timestamp)


def test_should_join_within_the_window_with_the_later_time() -> None:
    join = Join(JoinWindows(before=5, after=10, grace=0))
    join.right("k", "r", 100)

    assert join.left("k", "a", 89) == []
    assert join.left("k", "b", 90) == [("k", "b+r", 100)]
    assert join.left("k", "c", 105) == [("k", "c+r", 105)]
    assert join.left("k", "d", 106) == []
    assert join.right("k", "s", 95) == [("k", "a+s", 95), ("k", "b+s", 95)]


def test_should_join_every_pair_of_equal_keys() -> None:
    join = Join(JoinWindows(10, grace=0))
    join.left("k", "a", 1)
    join.left("k", "b", 1)
    join.left("other", "c", 1)

    assert join.right("k", "r", 2) == [("k", "a+r", 2), ("k", "b+r", 2)]


@pytest.mark.parametrize("left_outer", [False, True])
def test_should_drop_null_values(left_outer: bool) -> None:
    join = Join(JoinWindows(10, grace=0), left_outer)

    assert join.left("k", None, 1) == []
    assert join.right("k", None, 1) == []
    assert join.context.dropped == ["null key or value"] * 2


def test_should_emit_a_null_key_at_once_on_an_outer_side_and_drop_it_on_an_inner_side() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True)

    assert join.left(None, "a", 1) == [(None, "a+None", 1)]
    assert join.right(None, "r", 1) == []
    assert join.context.dropped == ["null key or value"]


def test_should_emit_a_record_without_a_partner_after_its_window_has_closed() -> None:
    join = Join(JoinWindows(10, grace=5), left_outer=True)
    join.left("k", "a", 100)

    assert join.left("j", "b", 115) == []
    assert join.left("j", "c", 116) == [("k", "a+None", 100)]
    assert join.right("k", "late", 101) == [("k", "a+late", 101)]


def test_should_not_emit_a_record_alone_that_found_a_partner() -> None:
    join = Join(JoinWindows(10, grace=5), left_outer=True, right_outer=True)
    join.left("k", "a", 100)
    assert join.right("k", "r", 105) == [("k", "a+r", 105)]

    assert join.left("j", "b", 200) == []


def test_should_emit_before_joining_the_arriving_record_right_side_first_at_equal_times() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True, right_outer=True)
    join.left("l", "a", 0)
    join.right("r", "b", 0)
    join.right("k", "x", 12)

    # minTime was 12 when the record at 12 was put: the records at 0 were emitted on its arrival.
    assert join.left("k", "y", 20) == [("k", "y+x", 20)]


def test_should_emit_both_sides_in_the_order_of_time() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True, right_outer=True)
    join.left("l", "a", 0)
    join.right("r", "b", 0)

    assert join.right("k", "x", 12) == [("r", "None+b", 0), ("l", "a+None", 0)]


def test_should_only_emit_when_the_arriving_record_is_at_stream_time() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True)
    join.left("k", "a", 0)
    join.right(None, "advances stream time and is dropped", 50)

    assert join.right("j", "b", 49) == []
    assert join.right("j", "c", 50) == [("k", "a+None", 0)]


def test_should_emit_at_once_what_is_too_late_for_a_partner() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True)
    join.right("k", "r", 100)

    assert join.left("j", "late", 89) == [("j", "late+None", 89)]
    assert join.left("j", "not yet", 90) == []


def test_should_wait_for_each_side_as_long_as_its_own_window() -> None:
    # A left record waits for right ones up to 2 later, a right record for left ones up to 20 later.
    join = Join(JoinWindows(before=20, after=2, grace=0), left_outer=True, right_outer=True)
    join.right("r", "b", 0)
    join.left("l", "a", 1)

    assert join.left("x", "c", 4) == [("l", "a+None", 1)]
    assert join.left("x", "d", 21) == [("r", "None+b", 0), ("x", "c+None", 4)]


def test_should_look_for_closed_windows_once_per_interval_of_wall_clock_time() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True, interval_ms=1000)
    join.context.wall_clock_ms = 5000
    join.left("k", "a", 0)
    join.context.wall_clock_ms = 5999
    assert join.left("j", "b", 11) == []
    join.context.wall_clock_ms = 6000
    assert join.left("j", "c", 12) == [("k", "a+None", 0)]


def test_should_emit_every_value_of_a_key_and_time() -> None:
    join = Join(JoinWindows(10, grace=0), left_outer=True)
    join.left("k", "a", 0)
    join.left("k", "b", 0)

    assert join.left("j", "c", 11) == [("k", "a+None", 0), ("k", "b+None", 0)]
    assert [key.key for key in join.context.stores["outer"].lists] == ["j"]


def test_should_emit_what_it_would_have_emitted_when_the_task_moves() -> None:
    windows = JoinWindows(10, grace=5)
    join = Join(windows, left_outer=True)
    join.left("k", "a", 100)
    join.right("x", "b", 110)
    moved = FakeContext(join.context.stores, join.context.app_configs)
    moved.metadata = dict(join.context.metadata)
    join.close()
    after = Join(windows, left_outer=True, context=moved)

    assert after.left("late", "c", 99) == [("late", "c+None", 99)]
    assert after.left("j", "d", 116) == [("k", "a+None", 100)]


def test_should_find_waiting_records_of_an_application_that_kept_no_times() -> None:
    join = Join(JoinWindows(10, grace=5), left_outer=True)
    join.left("k", "a", 100)
    after = Join(JoinWindows(10, grace=5), left_outer=True, context=FakeContext(join.context.stores, join.context.app_configs))

    assert after.left("j", "b", 116) == [("k", "a+None", 100)]


def test_should_forward_a_record_before_it_is_kept() -> None:
    context = FakeContext({"store": FakeWindowStore(10, duplicates=True)})
    runner = Runner(KStreamJoinWindow("store"), context)
    kept: list[int] = []
    context.on_forward = lambda record: kept.append(len(context.stores["store"].entries))

    headers = (("h", b"1"),)
    assert runner.pipe("k", "v", 5, headers) == [("k", "v", 5)]
    assert runner.pipe(None, "v", 6) == [(None, "v", 6)]
    assert runner.pipe("k", None, 7) == [("k", None, 7)]
    assert kept == [0, 1, 1]
    assert context.stores["store"].entries == [("k", 5, ValueTimestampHeaders("v", 5, headers))]


def test_should_share_times_within_a_task_and_travel_without_them() -> None:
    trackers = TimeTrackerSupplier()
    task_id = FakeContext().task_id
    tracker = trackers.get(task_id)
    tracker.advance_stream_time(5)

    assert trackers.get(task_id) is tracker
    assert pickle.loads(pickle.dumps(trackers)).get(task_id).stream_time == -1
    trackers.remove(task_id)
    assert trackers.get(task_id).stream_time == -1
