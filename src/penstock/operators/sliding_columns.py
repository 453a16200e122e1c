"""Batches in an aggregation over sliding windows: count, aggregate and reduce of many records at once.

1. The windows that the rows can look at are read at once, each key's within the times of its own rows.
2. Each row goes through the fold of single records, with these windows in place of the store.
3. Windows that have changed are written and forwarded as those of other windows are (`window_columns.py`).

With a cache, windows that have expired are found for as long as it has room; past it, until the store drops their segment
(`find_expired`). Without a cache none are found.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Protocol

from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.table_columns import DistinctKeys
from penstock.operators.window_columns import Changed, WindowResults
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row

Aggregate = ValueAndTimestamp[Any]


class WindowsOfKey(Protocol):
    """The windows of a record's key, as the fold sees them."""

    def oldest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        """Start and aggregate of the windows that start in a range of time."""

    def newest_first(self, time_from: int, time_to: int) -> Iterator[tuple[int, Aggregate]]:
        """The same, newest first."""

    def put(self, start: int, old: Any, new: Any, timestamp: int) -> None:
        """A window has changed."""


class _Turn:
    """All windows of a turn, and which row changed each last."""

    __slots__ = ("changed", "is_cached", "oldest", "row", "store", "stored")

    def __init__(self, store: Any, is_cached: bool) -> None:
        self.store = store
        self.is_cached = is_cached
        self.oldest = 0 if is_cached else store.oldest_after(-1)
        self.row = 0
        self.stored: set[tuple[Any, int]] = set()
        self.changed: dict[tuple[Any, int], tuple[int, Any, int]] = {}
        """Row, kept value and timestamp of each window, in the order of the last changes."""


class _TurnWindows:
    """The windows of one key in memory, as they would come from the store."""

    __slots__ = ("_identity", "_rows", "_starts", "_turn")

    def __init__(self, turn: _Turn, identity: Any, found: list[tuple[int, Any, int]]) -> None:
        self._turn = turn
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
        turn = self._turn
        kept = turn.store.keep(new)
        if kept is None:
            if self._rows.pop(start, None) is not None:
                self._starts.remove(start)
        else:
            if start not in self._rows:
                insort(self._starts, start)
            self._rows[start] = kept, timestamp
        place = self._identity, start
        turn.changed.pop(place, None)
        turn.changed[place] = turn.row, kept, timestamp
        if not turn.is_cached:
            turn.oldest = max(turn.oldest, turn.store.oldest_after(start))

    def _between(self, time_from: int, time_to: int) -> list[int]:
        starts = self._starts
        if not self._turn.is_cached:
            time_from = max(time_from, self._turn.oldest)
        return starts[bisect_left(starts, time_from) : bisect_right(starts, time_to)]

    def _aggregates(self, starts: list[int]) -> Iterator[tuple[int, Aggregate]]:
        rows, give = self._rows, self._turn.store.give
        for start in starts:
            kept, timestamp = rows[start]
            yield start, ValueAndTimestamp(give(kept), timestamp)


class SlidingColumns(WindowResults):
    """Folds records into sliding windows, many at a time."""

    _difference_ms: int
    _row: tuple[RecordBatch, int] | None = None
    """The row that is being folded."""

    def set_up(self, context: OperatorContext) -> None:
        """Keep the context and the store."""
        super().set_up(context)
        is_cached = not self._emit_final
        offers = self._store.keeps_rows and self._store.takes_rows
        self.takes_batches = offers and (self._emit_final or self._forwarder.waits_for_flush)
        if self.takes_batches and is_cached:
            self._store.find_expired()

    @abstractmethod
    def _fold(self, windows: WindowsOfKey, key: Any, value: Any, timestamp: int) -> None:
        """Fold a record into the windows of its key."""

    def process_batch(self, batch: RecordBatch) -> None:
        """Fold many records."""
        batch = self._rest(batch, needs_value=True)
        if not len(batch):
            return
        keys = DistinctKeys(batch.keys, self._store.raw_keys)
        turn = _Turn(self._store, is_cached=not self._emit_final)
        windows = self._read(batch, keys, turn)
        fold, node = self._fold, self._context.current_node
        for row, (identity, key, value, timestamp) in enumerate(zip(keys.identities, batch.keys, batch.values, batch.timestamps)):
            self._row = batch, row
            turn.row = row
            try:
                fold(windows[identity], key, value, timestamp)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc, node)
        self._row = None
        self._write(batch, keys, self._changed(keys, turn))

    def _read(self, batch: RecordBatch, keys: DistinctKeys, turn: _Turn) -> dict[Any, _TurnWindows]:
        difference = self._difference_ms
        spans = keys.spans(batch.timestamps)
        bounds = {raw: (max(0, first - 2 * difference), last + 1) for raw, (first, last) in spans.items()}
        found = self._store.kept_rows_of(bounds)
        turn.stored.update(
            (identity, start) for identity, raw in zip(keys.distinct, keys.raw) for start, _, _ in found.get(raw, ())
        )
        return {identity: _TurnWindows(turn, identity, found.get(raw, [])) for identity, raw in zip(keys.distinct, keys.raw)}

    def _changed(self, keys: DistinctKeys, turn: _Turn) -> Changed:
        """What the turn has changed; without windows that came and went, which were never there for anybody."""
        changed = turn.changed
        if turn.is_cached:
            changed = {place: row for place, row in changed.items() if row[1] is not None or place in turn.stored}
        raw = keys.raw_by_identity
        places = [(raw[identity], start) for identity, start in changed]
        values = self._store.give_all([kept for _, kept, _ in changed.values()])
        rows: list[Row | None] = [
            None if value is None else (value, timestamp) for value, (_, _, timestamp) in zip(values, changed.values())
        ]
        stored: list[Row | None] = self._store.rows_at(places) if self._send_old_values and places else [None] * len(places)
        return Changed([row for row, _, _ in changed.values()], places, rows, stored)
