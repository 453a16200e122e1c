"""Joins of two streams within a window: inner, left and outer.

Each side looks for the arriving record's partners in the other side's store. In a left or outer join a record without a partner
waits in a store shared by both sides, until a partner comes or its window has closed; then it is emitted with None in the
partner's place. That happens before the arriving record is joined, and only when the arriving record has advanced stream time
or equals it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from penstock.batches.batch_processor import BatchSupport, Operator
from penstock.ids import TaskId
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.joins.outer_join_store import LeftOrRightValue, TimestampedKeyAndJoinSide
from penstock.operators.joins.shared_times import NOTHING_SEEN, TimeTrackerSupplier
from penstock.operators.skipped import skip_record
from penstock.record import Record
from penstock.windows import JoinWindows

Joiner = Callable[[Any, Any, Any], Any]
Partners = AbstractContextManager[Iterable[tuple[int, Any]]]
"""Times and values of the other side's records."""
WaitingRecords = AbstractContextManager[Iterable[tuple[TimestampedKeyAndJoinSide, LeftOrRightValue]]]


class KStreamKStreamJoin(Operator):
    """Makes the processor of one side; `joiner` takes the key, this side's value and the other side's."""

    is_left_side: bool
    joins_batches = True

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

    def __call__(self) -> KStreamKStreamJoinProcessor:
        return KStreamKStreamJoinProcessor(self)


class KStreamKStreamJoinLeftSide(KStreamKStreamJoin):
    """The side of the stream that `join` is called on."""

    is_left_side = True


class KStreamKStreamJoinRightSide(KStreamKStreamJoin):
    """The side of the stream that is joined; its joiner has the values the other way round."""

    is_left_side = False


class ArrivingRecord(ABC):
    """What a side asks for and says while it joins one record, which comes by itself or among many."""

    @abstractmethod
    def skip(self) -> None:
        """The record is dropped: it has no key, or no value."""

    @abstractmethod
    def emit(self, key: Any, value: Any, timestamp: int) -> None:
        """A result, with the headers of the record."""

    @abstractmethod
    def partners(self, key: Any, time_from: int, time_to: int) -> Partners:
        """What the other side has kept of a key in a range of time, in the order of times."""

    @abstractmethod
    def wait(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        """The record waits for a partner."""

    @abstractmethod
    def stop_waiting(self, key: TimestampedKeyAndJoinSide) -> None:
        """A record of the other side has found its partner; it may not have waited."""

    @abstractmethod
    def waiting(self) -> WaitingRecords:
        """The records of both sides that wait, the earliest first."""

    @abstractmethod
    def remove(self, key: TimestampedKeyAndJoinSide) -> None:
        """All that have waited under a key wait no longer."""


class KStreamKStreamJoinProcessor(BatchSupport, OperatorProcessor[Any, Any, Any, Any]):
    """Joins the records of one side; rows of both sides are joined at once where the store of those that wait takes them."""

    def __init__(self, supplier: KStreamKStreamJoin) -> None:
        windows = supplier.windows
        self.is_left = supplier.is_left_side
        self.before_ms = windows.before_ms if self.is_left else windows.after_ms
        self.after_ms = windows.after_ms if self.is_left else windows.before_ms
        self._left_wait_ms = windows.after_ms + windows.grace_period_ms
        self._right_wait_ms = windows.before_ms + windows.grace_period_ms
        self.wait_ms = self.after_ms + windows.grace_period_ms
        self.joiner = supplier.joiner
        self.outer = supplier.outer
        self._emits_eagerly = windows.emits_eagerly
        self._tracker_supplier = supplier.shared_time_tracker_supplier
        self._other_store_name = supplier.other_window_store_name
        self._outer_store_name = supplier.outer_join_window_store_name
        self._task_id: TaskId | None = None

    def set_up(self, context: OperatorContext) -> None:
        """Keep the other side's store and the shared one."""
        self._task_id = context.task_id
        self._now_ms = context.current_system_time_ms
        other_store = context.get_state_store(self._other_store_name)
        self.outer_store = None if self._outer_store_name is None else context.get_state_store(self._outer_store_name)
        self._waits = self.outer_store is not None
        self.takes_batches = not self._emits_eagerly and (self.outer_store is None or self.outer_store.takes_rows)
        self.times = self._tracker_supplier.get(context.task_id)
        self.times.open(context, self._outer_store_name)
        self._single = _SingleRecord(context, other_store, self.outer_store)

    def process(self, record: Record[Any, Any]) -> None:
        """Join one record with the other side."""
        self._single.record = record
        self.join(record.key, record.value, record.timestamp, self._single)

    def join(self, key: Any, value: Any, timestamp: int, arrival: ArrivingRecord) -> None:
        """Join a record that arrives."""
        times = self.times
        times.advance_stream_time(timestamp)
        if key is None or value is None:
            if self.outer and value is not None:
                arrival.emit(None, self.joiner(None, value, None), timestamp)
            else:
                arrival.skip()
            return
        if self._waits and timestamp == times.stream_time:
            self._emit_non_joined(arrival)
        time_to = max(0, timestamp + self.after_ms)
        found = False
        with arrival.partners(key, max(0, timestamp - self.before_ms), time_to) as others:
            for other_timestamp, other in others:
                found = True
                if self._waits:
                    arrival.stop_waiting(TimestampedKeyAndJoinSide(key, other_timestamp, not self.is_left))
                arrival.emit(key, self.joiner(key, value, other), max(timestamp, other_timestamp))
        if found or not self.outer:
            return
        if not self._waits or time_to < times.stream_time:
            # Too late for a partner that stream time has passed: there is nothing to wait for.
            arrival.emit(key, self.joiner(key, value, None), timestamp)
        else:
            times.set_min_time(min(times.min_time, timestamp))
            waiting = LeftOrRightValue(value, None) if self.is_left else LeftOrRightValue(None, value)
            arrival.wait(TimestampedKeyAndJoinSide(key, timestamp, self.is_left), waiting)

    def _emit_non_joined(self, arrival: ArrivingRecord) -> None:
        """Emit the waiting records of both sides whose window has closed, oldest first."""
        times = self.times
        stream_time = times.stream_time
        if times.min_time != NOTHING_SEEN and times.min_time + self.wait_ms >= stream_time:
            return
        if not times.throttle.may_emit(self._now_ms()):
            return
        min_time = NOTHING_SEEN
        left_window_open = right_window_open = False
        previous: TimestampedKeyAndJoinSide | None = None
        with arrival.waiting() as waiting:
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
                this_value, other_value = (left_value, right_value) if self.is_left else (right_value, left_value)
                arrival.emit(key, self.joiner(key, this_value, other_value), min_time)
                # A key may stand for several values, and removing it removes all: only once the next key has come.
                if previous is not None and previous != waiting_key:
                    arrival.remove(previous)
                previous = waiting_key
            if previous is not None:
                arrival.remove(previous)
        times.set_min_time(min_time)

    def close(self) -> None:
        """Forget the task's times."""
        if self._task_id is not None:
            self._tracker_supplier.remove(self._task_id)


class _SingleRecord(ArrivingRecord):
    """A record by itself: results leave at once, and stores are asked for it alone."""

    record: Record[Any, Any]

    def __init__(self, context: OperatorContext, other_store: Any, outer_store: Any) -> None:
        self._context = context
        self._forward = context.forward
        self._fetch_range = other_store.fetch_range
        self._outer_store = outer_store

    def skip(self) -> None:
        skip_record(self._context, "null key or value")

    def emit(self, key: Any, value: Any, timestamp: int) -> None:
        self._forward(Record(key, value, timestamp, self.record.headers))

    def partners(self, key: Any, time_from: int, time_to: int) -> Partners:
        return _Values(self._fetch_range(key, time_from, time_to))

    def wait(self, key: TimestampedKeyAndJoinSide, value: LeftOrRightValue) -> None:
        self._outer_store.put(key, value)

    def stop_waiting(self, key: TimestampedKeyAndJoinSide) -> None:
        # With None this removes the partner if it waits, and writes nothing if it does not.
        self._outer_store.put_if_absent(key, None)

    def waiting(self) -> WaitingRecords:
        records: WaitingRecords = self._outer_store.all()
        return records

    def remove(self, key: TimestampedKeyAndJoinSide) -> None:
        self._outer_store.put(key, None)


class _Values(AbstractContextManager[Iterable[tuple[int, Any]]]):
    """The values alone of what a store has found."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def __enter__(self) -> Iterable[tuple[int, Any]]:
        return ((timestamp, entry.value) for timestamp, entry in self._entries.__enter__())

    def __exit__(self, *raised: Any) -> None:
        self._entries.__exit__(*raised)
