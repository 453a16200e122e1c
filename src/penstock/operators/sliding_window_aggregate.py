"""Aggregation over sliding windows.

A record at time t belongs to every window of length d that contains t. Windows are only kept where their content differs: each
record has a left window [t - d, t], which ends with it, and a right window [t + 1, t + 1 + d], which begins just after it and
exists as soon as it holds a record. The timestamp kept with an aggregate is that of the latest record in its window, and tells
whether a window that was found also serves a neighbour.

A batch is folded like single records, over windows in memory: those that its rows can look at are read at once, each key's within
the times of its own rows. Windows that have changed are written and forwarded together. With a cache, windows that have expired
are found for as long as it has room; past the cache, until the store drops their segment (`find_expired`). Without a cache no
expired window is found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.batches.batch_processor import Operator
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.old_values import keeper
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.time_window_processor import Changed, TimeWindowAggregateProcessor, WindowAggregateValueGetter
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetterSupplier
from penstock.record import NO_TIMESTAMP, Record
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row
from penstock.windows import EmitStrategy, SlidingWindows, TimeWindow


class KStreamSlidingWindowAggregate(Operator):
    """Makes the processor that aggregates the records of each key over sliding windows."""

    def __init__(
        self,
        windows: SlidingWindows,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
    ) -> None:
        self.windows = windows
        self.store_name = store_name
        self.time_name = store_name
        """The name that its stream time is committed under; operators that share a store have one each."""
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = False

    def __call__(self) -> KStreamSlidingWindowAggregateProcessor:
        return KStreamSlidingWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        return KTableMaterializedValueGetterSupplier(self.store_name, WindowAggregateValueGetter)


Aggregate = ValueAndTimestamp[Any]


class WindowsOfKey(Protocol):
    """The windows of a record's key, as the fold sees them."""

    def oldest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        """Start and aggregate of the windows that start in a range of time."""

    def newest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        """The same, newest first."""

    def put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        """A window has changed."""


class _StoredWindows:
    """The windows of a record's key in the store; what is put is forwarded where no cache waits."""

    __slots__ = ("_processor", "_record", "_store")

    def __init__(self, processor: KStreamSlidingWindowAggregateProcessor, store: Any, record: Record[Any, Any]) -> None:
        self._processor = processor
        self._store = store
        self._record = record

    def oldest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        with self._store.fetch_range(self._record.key, time_from, time_to) as windows:
            yield from windows

    def newest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        with self._store.backward_fetch_range(self._record.key, time_from, time_to) as windows:
            yield from windows

    def put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        self._store.put(self._record.key, None if new is None else ValueAndTimestamp(new, timestamp), start)
        self._processor.updated(self._record, start, old, new, timestamp)


class _ChangedWindows:
    """The windows that a batch has changed, and the row that changed each last."""

    __slots__ = ("changed", "is_cached", "oldest", "row", "store", "stored")

    def __init__(self, store: Any, is_cached: bool) -> None:
        self.store = store
        self.is_cached = is_cached
        self.oldest = 0 if is_cached else store.oldest_after(-1)
        self.row = 0
        self.stored: set[tuple[Any, int]] = set()
        self.changed: dict[tuple[Any, int], tuple[int, Any, int]] = {}
        """Row, kept value and timestamp of each window, in the order of the last changes."""


class _BatchWindows:
    """The windows of one key in memory, as they would come from the store."""

    __slots__ = ("_changes", "_identity", "_rows", "_starts")

    def __init__(self, changes: _ChangedWindows, identity: Any, found: list[tuple[int, Any, int]]) -> None:
        self._changes = changes
        self._identity = identity
        self._rows = {start: (kept, timestamp) for start, kept, timestamp in found}
        self._starts = [start for start, _, _ in found]

    def oldest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        return self._aggregates(self._between(time_from, time_to))

    def newest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        starts = self._between(time_from, time_to)
        starts.reverse()
        return self._aggregates(starts)

    def put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        changes = self._changes
        kept = changes.store.keep(new)
        if kept is None:
            if self._rows.pop(start, None) is not None:
                self._starts.remove(start)
        else:
            if start not in self._rows:
                insort(self._starts, start)
            self._rows[start] = kept, timestamp
        place = self._identity, start
        changes.changed.pop(place, None)
        changes.changed[place] = changes.row, kept, timestamp
        if not changes.is_cached:
            changes.oldest = max(changes.oldest, changes.store.oldest_after(start))

    def _between(self, time_from: int, time_to: int) -> list[int]:
        starts = self._starts
        if not self._changes.is_cached:
            time_from = max(time_from, self._changes.oldest)
        return starts[bisect_left(starts, time_from) : bisect_right(starts, time_to)]

    def _aggregates(self, starts: list[int]) -> Iterator[tuple[int, Aggregate]]:
        rows, give = self._rows, self._changes.store.give
        for start in starts:
            kept, timestamp = rows[start]
            yield start, ValueAndTimestamp(give(kept), timestamp)


class _Fold:
    """A record on its way into windows, and what those that were already there mean for the ones it still needs."""

    __slots__ = (
        "close_time",
        "key",
        "left_aggregate",
        "left_exists",
        "previous_timestamp",
        "right_aggregate",
        "right_exists",
        "starts",
        "timestamp",
        "value",
        "windows",
    )

    def __init__(self, windows: WindowsOfKey, key: Any, value: Any, timestamp: int, close_time: int) -> None:
        self.windows = windows
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.close_time = close_time
        self.starts: set[int] = set()
        self.left_aggregate: Aggregate | None = None
        self.right_aggregate: Aggregate | None = None
        self.left_exists = False
        self.right_exists = False
        self.previous_timestamp: int | None = None


class KStreamSlidingWindowAggregateProcessor(TimeWindowAggregateProcessor):
    """Updates the windows a record falls into and creates those that it makes necessary."""

    def __init__(self, supplier: KStreamSlidingWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.time_name, supplier.emit_strategy, supplier.send_old_values)
        self._difference_ms = supplier.windows.time_difference_ms
        self._grace_ms = supplier.windows.grace_period_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator
        self._row: tuple[RecordBatch, int] | None = None
        """The row of a batch that is being folded."""

    def set_up(self, context: OperatorContext) -> None:
        """Take batches if no result is forwarded before a flush or the close of its window."""
        super().set_up(context)
        offers = self._store.keeps_rows and self._store.takes_rows
        self.takes_batches = offers and (self._emit_final or self._forwarder.waits_for_flush)
        if self.takes_batches and not self._emit_final:
            self._store.find_expired()
        self._copy = keeper(self._store)

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; unlike other windows, these drop null values."""
        timestamp = record.timestamp
        if record.key is None or record.value is None:
            skip_record(self._context, "null key or value")
            return
        self._fold(_StoredWindows(self, self._store, record), record.key, record.value, timestamp)
        close_time = self._stream_time.now - self._grace_ms
        # Final results wait for a record that is not late, and whose left window does not begin before time 0.
        if timestamp >= self._difference_ms and timestamp + self._difference_ms >= close_time:
            self._maybe_forward_final_result(record, close_time)

    def updated(self, record: Record[Any, Any], start: int, old: Any, new: Any, timestamp: int) -> None:
        """Forward what a single record has changed, unless a cache or the end of the window is waited for."""
        self._maybe_forward_update(record, TimeWindow(start, start + self._difference_ms), old, new, timestamp)

    def _fold(self, windows: WindowsOfKey, key: Any, value: Any, timestamp: int) -> None:
        """Fold a record into the windows of its key."""
        close_time = self._stream_time.observe(timestamp) - self._grace_ms
        if timestamp + self._difference_ms < close_time:
            self._skip_expired(timestamp, timestamp, close_time)
            return
        fold = _Fold(windows, key, value, timestamp, close_time)
        if timestamp < self._difference_ms:
            self._fold_early(fold)
        else:
            self._fold_full(fold)

    def _fold_full(self, fold: _Fold) -> None:
        timestamp, difference = fold.timestamp, self._difference_ms
        # One past the record's own time, to see its right window as well.
        for start, aggregate in fold.windows.newest_first(max(0, timestamp - 2 * difference), timestamp + 1):
            fold.starts.add(start)
            end = start + difference
            latest_timestamp = aggregate.timestamp
            if start == timestamp + 1:
                fold.right_exists = True
            elif end > timestamp:
                if fold.right_aggregate is None:
                    fold.right_aggregate = self._copied(aggregate)
                self._update_window(fold, start, aggregate)
            elif end == timestamp:
                fold.left_exists = True
                self._update_window(fold, start, aggregate)
                if latest_timestamp >= timestamp:
                    # A record of this very time was here before: every window it makes necessary exists.
                    return
                fold.previous_timestamp = latest_timestamp
            else:
                fold.left_aggregate = aggregate
                fold.previous_timestamp = latest_timestamp
                break
        self._create_windows(fold)

    def _fold_early(self, fold: _Fold) -> None:
        """Records of before the first full window share the window [0, d], as their left windows cannot begin before 0."""
        timestamp = fold.timestamp
        combined: Aggregate | None = None
        for start, aggregate in fold.windows.oldest_first(0, timestamp + 1):
            fold.starts.add(start)
            if start == 0:
                combined = aggregate
                if aggregate.timestamp < timestamp:
                    fold.previous_timestamp = aggregate.timestamp
            elif start <= timestamp:
                fold.right_aggregate = self._copied(aggregate)
                self._update_window(fold, start, aggregate)
            else:
                fold.right_exists = True
        if fold.right_aggregate is None and combined is not None and combined.timestamp > timestamp:
            # Without a window in between, all that [0, d] holds came after this record.
            fold.right_aggregate = self._copied(combined)
        self._maybe_create_right_window(fold)
        if fold.previous_timestamp is not None and fold.previous_timestamp + 1 not in fold.starts:
            self._update_window(fold, fold.previous_timestamp + 1, self._initial(timestamp))
        self._update_window(fold, 0, self._initial(timestamp) if combined is None else combined)

    def _create_windows(self, fold: _Fold) -> None:
        timestamp, difference = fold.timestamp, self._difference_ms
        previous = fold.previous_timestamp
        if previous is not None and previous + 1 not in fold.starts and previous + 1 + difference >= timestamp:
            self._update_window(fold, previous + 1, self._initial(timestamp))
        if not fold.left_exists:
            if previous is not None and timestamp - difference <= previous:
                assert fold.left_aggregate is not None
                aggregate: Aggregate | None = ValueAndTimestamp(fold.left_aggregate.value, timestamp)
            else:
                aggregate = self._initial(timestamp)
            self._update_window(fold, timestamp - difference, aggregate)
        self._maybe_create_right_window(fold)

    def _maybe_create_right_window(self, fold: _Fold) -> None:
        right = fold.right_aggregate
        if not fold.right_exists and right is not None and right.timestamp > fold.timestamp:
            fold.windows.put(fold.timestamp + 1, None, right.value, right.timestamp)

    def _initial(self, timestamp: int) -> Aggregate | None:
        value = self._initializer()
        return None if value is None else ValueAndTimestamp(value, timestamp)

    def _copied(self, aggregate: Aggregate) -> Aggregate:
        """What another window begins with, before the function that may change it in place gets it for this one."""
        return ValueAndTimestamp(self._copy(aggregate.value), aggregate.timestamp)

    def _update_window(self, fold: _Fold, start: int, aggregate: Aggregate | None) -> None:
        if start + self._difference_ms < fold.close_time:
            self._skip_expired(fold.timestamp, start, fold.close_time)
            return
        timestamp = fold.timestamp
        old = None if aggregate is None else aggregate.value
        kept = self._kept(old)
        new = self._aggregator(fold.key, fold.value, old)
        if old is not None and aggregate is not None and aggregate.timestamp > timestamp:
            timestamp = aggregate.timestamp
        fold.windows.put(start, kept, new, timestamp)

    def _skip_expired(self, timestamp: int, start: int, close_time: int) -> None:
        if self._row is not None:
            batch, row = self._row
            self._context.enter_row(batch, row)
        window = f"[{start},{start + self._difference_ms}]"
        skip_expired(self._context, timestamp, window, close_time, self._stream_time.now)

    def _emit_range_lower_bound(self) -> int:
        if self._last_emit_window_close_time == NO_TIMESTAMP:
            return 0
        return max(0, self._last_emit_window_close_time - self._difference_ms)

    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        # Both ends belong to a sliding window: it closes after its end.
        return window_close_time - self._difference_ms - 1

    # -- batches -------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: RecordBatch) -> None:
        batch = self._rest(batch, needs_value=True)
        if not len(batch):
            return
        keys = DistinctKeys(batch.keys, self._store.raw_keys)
        changes = _ChangedWindows(self._store, is_cached=not self._emit_final)
        windows = self._read(batch, keys, changes)
        fold, node = self._fold, self._context.current_node
        for row, (identity, key, value, timestamp) in enumerate(zip(keys.identities, batch.keys, batch.values, batch.timestamps)):
            self._row = batch, row
            changes.row = row
            try:
                fold(windows[identity], key, value, timestamp)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc, node)
        self._row = None
        self._write(batch, keys, self._changed(keys, changes))

    def _read(self, batch: RecordBatch, keys: DistinctKeys, changes: _ChangedWindows) -> dict[Any, _BatchWindows]:
        difference = self._difference_ms
        spans = keys.spans(batch.timestamps)
        bounds = {raw: (max(0, first - 2 * difference), last + 1) for raw, (first, last) in spans.items()}
        found = self._store.kept_rows_of(bounds)
        changes.stored.update(
            (identity, start) for identity, raw in zip(keys.distinct, keys.raw) for start, _, _ in found.get(raw, ())
        )
        return {identity: _BatchWindows(changes, identity, found.get(raw, [])) for identity, raw in zip(keys.distinct, keys.raw)}

    def _changed(self, keys: DistinctKeys, changes: _ChangedWindows) -> Changed:
        """The windows that have changed, without those that came and went between two commits."""
        changed = changes.changed
        if changes.is_cached:
            changed = {place: row for place, row in changed.items() if row[1] is not None or place in changes.stored}
        raw = keys.raw_by_identity
        places = [(raw[identity], start) for identity, start in changed]
        values = self._store.give_all([kept for _, kept, _ in changed.values()])
        rows: list[Row | None] = [
            None if value is None else (value, timestamp) for value, (_, _, timestamp) in zip(values, changed.values())
        ]
        stored: list[Row | None] = self._store.rows_at(places) if self._send_old_values and places else [None] * len(places)
        return Changed([row for row, _, _ in changed.values()], places, rows, stored)
