"""Joins of two streams within a window: inner, left and outer.

Each side looks for the arriving record's partners in the other side's store. In a left or outer join a record without a partner
waits in a store shared by both sides, until a partner comes or its window has closed; then it is emitted with None in the
partner's place. That happens before the arriving record is joined, and only when the arriving record has advanced stream time
or equals it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.columns.operator import Operator
from penstock.operators.joins.outer_join_store import LeftOrRightValue, TimestampedKeyAndJoinSide
from penstock.operators.joins.shared_times import NOTHING_SEEN, TimeTrackerSupplier
from penstock.operators.skipped import skip_record
from penstock.processor import Processor
from penstock.record import Record
from penstock.windows import JoinWindows

Joiner = Callable[[Any, Any, Any], Any]


class KStreamKStreamJoin(Operator):
    """Makes the processor of one side; `joiner` takes the key, this side's value and the other side's."""

    is_left_side: bool

    def __init__(
        self,
        windows: JoinWindows,
        joiner: Joiner,
        outer: bool,
        shared_time_tracker_supplier: TimeTrackerSupplier,
        other_window_store_name: str,
        outer_join_window_store_name: str | None = None,
    ) -> None:
        self.windows = windows
        self.joiner = joiner
        self.outer = outer
        self.shared_time_tracker_supplier = shared_time_tracker_supplier
        self.other_window_store_name = other_window_store_name
        self.outer_join_window_store_name = outer_join_window_store_name

    @property
    def joins_columns(self) -> bool:
        """Whether the rows of both sides can be joined at once; those of a left or outer join may have to wait."""
        return not self.outer and self.outer_join_window_store_name is None

    def __call__(self) -> KStreamKStreamJoinProcessor:
        """Each task gets a processor of its own."""
        return KStreamKStreamJoinProcessor(self)


class KStreamKStreamJoinLeftSide(KStreamKStreamJoin):
    """The side of the stream that `join` is called on."""

    is_left_side = True


class KStreamKStreamJoinRightSide(KStreamKStreamJoin):
    """The side of the stream that is joined; its joiner has the values the other way round."""

    is_left_side = False


class KStreamKStreamJoinProcessor(Processor[Any, Any, Any, Any]):
    """Joins the records of one side."""

    def __init__(self, supplier: KStreamKStreamJoin) -> None:
        windows = supplier.windows
        self._is_left = supplier.is_left_side
        self.before_ms = windows.before_ms if self._is_left else windows.after_ms
        self.after_ms = windows.after_ms if self._is_left else windows.before_ms
        self._left_wait_ms = windows.after_ms + windows.grace_period_ms
        self._right_wait_ms = windows.before_ms + windows.grace_period_ms
        self._wait_ms = self.after_ms + windows.grace_period_ms
        self.joiner = supplier.joiner
        self._outer = supplier.outer
        self._tracker_supplier = supplier.shared_time_tracker_supplier
        self._other_store_name = supplier.other_window_store_name
        self._outer_store_name = supplier.outer_join_window_store_name
        self._context: Any = None

    def init(self, context: Any) -> None:
        """Keep the context, the other side's store and the shared one."""
        self.context = context
        self._context = context
        self._forward = context.forward
        self._fetch_range = context.get_state_store(self._other_store_name).fetch_range
        self._outer_store = None if self._outer_store_name is None else context.get_state_store(self._outer_store_name)
        self._times = self._tracker_supplier.get(context.task_id)
        self._times.open(context, self._outer_store_name)

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record with the other side."""
        key, value, timestamp = record.key, record.value, record.timestamp
        times = self._times
        times.advance_stream_time(timestamp)
        if key is None or value is None:
            if self._outer and value is not None:
                self._forward(Record(None, self.joiner(None, value, None), timestamp, record.headers))
            else:
                skip_record(self._context, "null key or value")
            return
        outer_store = self._outer_store
        if outer_store is not None and timestamp == times.stream_time:
            self._emit_non_joined(outer_store, record)
        time_to = max(0, timestamp + self.after_ms)
        found = False
        with self._fetch_range(key, max(0, timestamp - self.before_ms), time_to) as others:
            for other_timestamp, other in others:
                found = True
                if outer_store is not None:
                    # With None this removes the partner if it waits, and writes nothing if it does not.
                    outer_store.put_if_absent(TimestampedKeyAndJoinSide(key, other_timestamp, not self._is_left), None)
                joined = self.joiner(key, value, other.value)
                self._forward(Record(key, joined, max(timestamp, other_timestamp), record.headers))
        if found or not self._outer:
            return
        if outer_store is None or time_to < times.stream_time:
            # Too late for a partner that stream time has passed: there is nothing to wait for.
            self._forward(Record(key, self.joiner(key, value, None), timestamp, record.headers))
        else:
            times.set_min_time(min(times.min_time, timestamp))
            waiting = LeftOrRightValue(value, None) if self._is_left else LeftOrRightValue(None, value)
            outer_store.put(TimestampedKeyAndJoinSide(key, timestamp, self._is_left), waiting)

    def _emit_non_joined(self, store: Any, record: Record[Any, Any]) -> None:
        """Emit the waiting records of both sides whose window has closed, oldest first."""
        times = self._times
        stream_time = times.stream_time
        if times.min_time != NOTHING_SEEN and times.min_time + self._wait_ms >= stream_time:
            return
        if not times.throttle.may_emit(self._context.current_system_time_ms()):
            return
        min_time = NOTHING_SEEN
        left_window_open = right_window_open = False
        previous: TimestampedKeyAndJoinSide | None = None
        with store.all() as waiting:
            for waiting_key, waiting_value in waiting:
                key, min_time, is_left_side = waiting_key
                if left_window_open and right_window_open:
                    break
                wait_ms = self._left_wait_ms if is_left_side else self._right_wait_ms
                if min_time + wait_ms >= stream_time:
                    # The other side may have a shorter wait: go on for it.
                    if is_left_side:
                        left_window_open = True
                    else:
                        right_window_open = True
                    continue
                left_value, right_value = waiting_value
                this_value, other_value = (left_value, right_value) if self._is_left else (right_value, left_value)
                self._forward(Record(key, self.joiner(key, this_value, other_value), min_time, record.headers))
                # A key may stand for several values, and removing it removes all: only once the next key has come.
                if previous is not None and previous != waiting_key:
                    store.put(previous, None)
                previous = waiting_key
            if previous is not None:
                store.put(previous, None)
        times.set_min_time(min_time)

    def close(self) -> None:
        """Forget the task's times."""
        if self._context is not None:
            self._tracker_supplier.remove(self._context.task_id)
