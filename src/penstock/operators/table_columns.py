"""The face for columns of operators that keep a table: count, aggregate and reduce of a stream, and a table's source."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from penstock.change import Change
from penstock.columns.columns import Columns
from penstock.columns.operator import ColumnProcessor
from penstock.operators.forwarding import TimestampedTupleForwarder
from penstock.state.layers.metered_key_value import MeteredTimestampedKeyValueStore
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_and_timestamp import Row

# Keys of these types are equal exactly where their bytes are, so that they can stand for their bytes.
LIKE_THEIR_BYTES = frozenset({str, bytes, int})

Update = tuple[Any, Any, int]
"""What a record changed: new value, old value, timestamp."""


class TableColumns(ColumnProcessor):
    """Folds records into the rows of a table.

    It reads the rows of all keys at once, folds the records into them, and writes and forwards at once what has changed: with a
    cache the last row of each key in the order of the last updates, as a flush does; without one every update.
    """

    _context: Any
    _forwarder: TimestampedTupleForwarder
    _send_old_values: bool
    _table: MeteredTimestampedKeyValueStore[Any, Any]
    _keeps_latest_time = True
    takes_columns = False

    def _take_columns(self, store: Any) -> None:
        """Offer the face where the store has what it needs."""
        if isinstance(store, MeteredTimestampedKeyValueStore) and store.takes_rows:
            self._table = store
            self.takes_columns = True

    @abstractmethod
    def _folded(self, key: Any, value: Any, row: Row | None) -> tuple[Any, Any]:
        """The new aggregate, and the old one as a change shows it."""

    def process_columns(self, columns: Columns) -> None:
        """Fold many records."""
        columns = self._complete(columns)
        if len(columns):
            keys = DistinctKeys(columns.keys, self._table.raw_keys)
            rows = dict(zip(keys.distinct, self._table.rows_of(keys.raw)))
            if self._forwarder.waits_for_flush:
                self._write_last(columns, keys, rows)
            else:
                self._write_all(columns, keys, rows)

    def _complete(self, columns: Columns) -> Columns:
        """The rows that count: those with key and value."""
        if None not in columns.keys and None not in columns.values:
            return columns
        complete = [key is not None and value is not None for key, value in zip(columns.keys, columns.values)]
        dropped = [row for row, whole in enumerate(complete) if not whole]
        self._context.rows_dropped(columns, dropped, "Skipping record due to null key or value.")
        return columns.take([row for row, whole in enumerate(complete) if whole])

    def _fold(self, columns: Columns, keys: DistinctKeys, rows: dict[Any, Row | None]) -> tuple[list[int], list[Update]]:
        """Fold all records into `rows`; returns which records were, and what each changed.

        An aggregate is kept as it would come back from the store, unless its serde is known to give back what it got:
        the next record must not see what a store would not have kept, nor share an object with an earlier change.
        """
        keeps_latest = self._keeps_latest_time
        fold, exact, through = self._folded, self._table.exact_type, self._table.through_bytes
        done: list[int] = []
        updates: list[Update] = []
        number = -1
        records = enumerate(zip(keys.identities, columns.keys, columns.values, columns.timestamps))
        while True:
            try:
                for number, (identity, key, value, timestamp) in records:
                    row = rows[identity]
                    new, old = fold(key, value, row)
                    if keeps_latest and row is not None and row[1] > timestamp:
                        timestamp = row[1]
                    if new is None:
                        rows[identity] = None
                    else:
                        rows[identity] = (new if type(new) is exact else through(new), timestamp)
                    updates.append((new, old, timestamp))
                    done.append(number)
                return done, updates
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(columns, number, exc)

    def _write_last(self, columns: Columns, keys: DistinctKeys, rows: dict[Any, Row | None]) -> None:
        stored = dict(rows)
        done, _ = self._fold(columns, keys, rows)
        last = sorted(dict(zip(map(keys.identities.__getitem__, done), done)).values())
        if self._send_old_values and self._table.exact_type is None:
            stored = dict(zip(keys.distinct, self._table.rows_of(keys.raw)))  # the function may have changed them in place
        self._write_rows(columns, last, keys, rows, stored)

    def _write_rows(
        self, columns: Columns, last: list[int], keys: DistinctKeys, rows: dict[Any, Row | None], stored: dict[Any, Row | None]
    ) -> None:
        """Write and forward the rows of the keys whose last records are given, in that order."""
        identities = keys.identities
        if not self._context.is_only_run:
            self._put_rows(columns, last, keys, rows)
            return
        # A key that came and went between two commits was never there for anybody.
        last = [number for number in last if rows[identities[number]] is not None or stored[identities[number]] is not None]
        updates = []
        for number in last:
            new, old = rows[identities[number]], stored[identities[number]]
            timestamp = columns.timestamps[number] if new is None else new[1]
            updates.append((None if new is None else new[0], None if old is None else old[0], timestamp))
        self._write_and_forward(columns.take(last), keys.raw_of([identities[number] for number in last]), updates)

    def _put_rows(self, columns: Columns, last: list[int], keys: DistinctKeys, rows: dict[Any, Row | None]) -> None:
        """Leave the rows in the cache, for more records of the turn to change them."""
        for number in last:
            row = rows[keys.identities[number]]
            self._context.record_context = columns.context(number)
            self._table.put(columns.keys[number], None if row is None else ValueAndTimestamp(*row))

    def _write_all(self, columns: Columns, keys: DistinctKeys, rows: dict[Any, Row | None]) -> None:
        done, updates = self._fold(columns, keys, rows)
        raw_keys = keys.raw_of([keys.identities[number] for number in done])
        self._write_and_forward(columns if len(done) == len(columns) else columns.take(done), raw_keys, updates)

    def _write_and_forward(self, columns: Columns, raw_keys: list[bytes], updates: list[Update]) -> None:
        timestamps = [timestamp for _, _, timestamp in updates]
        self._table.write_rows_through(raw_keys, [new for new, _, _ in updates], timestamps, columns.timestamps)
        send_old = self._send_old_values
        changes = [Change(new, old if send_old else None) for new, old, _ in updates]
        self._context.forward_columns(
            Columns(columns.keys, changes, timestamps, columns.headers, columns.origin, columns.sources)
        )


class DistinctKeys:
    """The keys of columns, each with what stands for it: itself, or its bytes where keys may be equal and differ in bytes."""

    __slots__ = ("_raw_by_identity", "are_keys", "distinct", "identities", "raw")

    def __init__(self, keys: Sequence[Any], raw_keys: Callable[[Sequence[Any]], list[bytes]]) -> None:
        kinds = set(map(type, keys))
        self.identities: Sequence[Any] = keys
        self.distinct: list[Any] = []
        self.raw: list[bytes] = []
        if len(kinds) == 1 and kinds <= LIKE_THEIR_BYTES:
            self.distinct = list(dict.fromkeys(keys))
            self.raw = raw_keys(self.distinct)
        if not self.raw or len(set(self.raw)) < len(self.raw):
            self.identities = list(raw_keys(keys))
            self.distinct = self.raw = list(dict.fromkeys(self.identities))
        self._raw_by_identity = dict(zip(self.distinct, self.raw))
        self.are_keys = self.identities is keys
        """Whether each key stands for itself."""

    def raw_of(self, identities: list[Any]) -> list[bytes]:
        """The bytes of some of the keys."""
        return [self._raw_by_identity[identity] for identity in identities]
