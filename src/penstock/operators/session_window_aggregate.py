"""Aggregation over session windows: a record joins the sessions it is close to into one.

A batch is folded like single records, over sessions in memory:

1. The sessions that the rows can fall into are read at once, each key's within the times of its own rows.
2. The rows are folded into them, in their order.
3. What has changed is written at once, each session once, at its last change, which is what a cache keeps. If the batch has all
   rows until the commit, sessions are written past the cache and their changes forwarded as a batch.

With a cache, sessions that have expired are found for as long as it has room; past the cache, until the store drops their segment
(`find_expired`). Without a cache no expired session is found.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Protocol

from penstock.batches.batch_processor import Operator
from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.context import OperatorContext
from penstock.operators.distinct_keys import DistinctKeys
from penstock.operators.forwarding import FlushListener
from penstock.operators.session_view import plain_sessions, session_flush_listener
from penstock.operators.skipped import skip_expired, skip_record
from penstock.operators.value_getters import KTableMaterializedValueGetterSupplier, KTableValueGetter, KTableValueGetterSupplier
from penstock.operators.windowed_processor import WindowedAggregateProcessor
from penstock.record import Record
from penstock.state.store import ValueAndTimestamp
from penstock.windows import EmitStrategy, SessionWindow, SessionWindows, Windowed


class KStreamSessionWindowAggregate(Operator):
    """Makes the processor that aggregates the records of each key and session."""

    def __init__(
        self,
        windows: SessionWindows,
        store_name: str,
        emit_strategy: EmitStrategy,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        session_merger: Callable[[Any, Any, Any], Any],
    ) -> None:
        self.windows = windows
        self.store_name = store_name
        self.time_name = store_name
        """The name that its stream time is committed under; operators that share a store have one each."""
        self.emit_strategy = emit_strategy
        self.initializer = initializer
        self.aggregator = aggregator
        self.session_merger = session_merger
        self.send_old_values = False

    def __call__(self) -> KStreamSessionWindowAggregateProcessor:
        return KStreamSessionWindowAggregateProcessor(self)

    def enable_sending_old_values(self, force_materialization: bool = True) -> bool:
        """Send the value before a change along with it."""
        self.send_old_values = True
        return True

    def view(self) -> KTableValueGetterSupplier:
        return KTableMaterializedValueGetterSupplier(self.store_name, SessionWindowValueGetter)


class _SessionsOfKey(Protocol):
    """The sessions of a record's key, as the fold sees them."""

    def find(self, time_from: int, time_to: int) -> list[tuple[int, int, Any]]:
        """Start, end and aggregate of the sessions that end at or after one time and start at or before another one."""

    def remove_found(self) -> None:
        """Remove the sessions that `find` returned last."""

    def put(self, start: int, end: int, aggregate: Any) -> None:
        """Set the aggregate of a session."""


class _StoredSessions:
    """The sessions of a single record's key in the store; changes are forwarded at once unless a cache waits."""

    __slots__ = ("_found", "_key", "_processor", "_store")

    def __init__(self, processor: KStreamSessionWindowAggregateProcessor, store: Any, key: Any) -> None:
        self._processor = processor
        self._store = store
        self._key = key

    def find(self, time_from: int, time_to: int) -> list[tuple[int, int, Any]]:
        with self._store.find_sessions(self._key, time_from, time_to) as sessions:
            merged = list(sessions)
        old_value = self._processor.old_value
        self._found = [(session, old_value(value)) for session, value in merged]
        return [(session.window.start, session.window.end, value) for session, value in merged]

    def remove_found(self) -> None:
        for session, old in self._found:
            self._store.remove(session)
            self._processor.updated(session, old, None)

    def put(self, start: int, end: int, aggregate: Any) -> None:
        session = Windowed(self._key, SessionWindow(start, end))
        self._store.put(session, aggregate)
        self._processor.updated(session, None, aggregate)


_Session = tuple[Any, int, int]
"""The identity of a key, start and end of one of its sessions."""


class _ChangedSessions:
    """The sessions that a batch has changed, and what the store had of them."""

    __slots__ = ("changed", "is_cached", "observed", "retention", "row", "store", "stored")

    def __init__(self, store: Any, is_cached: bool) -> None:
        self.store = store
        self.is_cached = is_cached
        self.observed = store.observed_stream_time
        self.retention = store.retention_period
        self.row = 0
        self.stored: dict[_Session, Any] = {}
        self.changed: dict[_Session, tuple[int, Any]] = {}
        """The row that changed a session last and the kept aggregate, in the order of these changes; None for a removed one."""


class _BatchSessions:
    """The sessions of one key in memory, in the order of the store: end, start, row and kept aggregate."""

    __slots__ = ("_changes", "_found", "_identity", "_sessions")

    def __init__(self, changes: _ChangedSessions, identity: Any, found: list[tuple[int, int, Any]]) -> None:
        self._changes = changes
        self._identity = identity
        # The row makes sure that two sessions are never compared by their aggregates.
        self._sessions = [(end, start, -1, kept) for start, end, kept in found]
        self._found: list[tuple[int, int, int, Any]] = []

    def find(self, time_from: int, time_to: int) -> list[tuple[int, int, Any]]:
        changes, sessions = self._changes, self._sessions
        if not changes.is_cached:
            time_from = max(time_from, changes.observed - changes.retention + 1)
        if not sessions or sessions[-1][0] < time_from:
            self._found = []
            return []
        self._found = [session for session in sessions[bisect_left(sessions, (time_from,)) :] if session[1] <= time_to]
        give = changes.store.give
        return [(start, end, give(kept)) for end, start, _, kept in self._found]

    def remove_found(self) -> None:
        changes = self._changes
        for session in self._found:
            self._sessions.remove(session)
            gone = self._identity, session[1], session[0]
            changes.changed.pop(gone, None)
            if gone in changes.stored or not changes.is_cached:
                changes.changed[gone] = changes.row, None
        self._found = []

    def put(self, start: int, end: int, aggregate: Any) -> None:
        changes, sessions = self._changes, self._sessions
        kept = changes.store.keep(aggregate)
        for session in self._found:  # the same session: a longer one has been removed
            sessions.remove(session)
        place = self._identity, start, end
        changes.changed.pop(place, None)
        changes.changed[place] = changes.row, kept
        if end > changes.observed:
            changes.observed = end
        if kept is None:
            return
        if not sessions or sessions[-1][0] < end:
            sessions.append((end, start, changes.row, kept))
        else:
            insort(sessions, (end, start, changes.row, kept))


class KStreamSessionWindowAggregateProcessor(WindowedAggregateProcessor):
    """Merges sessions, forwards each change or, with `EmitStrategy.on_window_close()`, the final results."""

    def __init__(self, supplier: KStreamSessionWindowAggregate) -> None:
        super().__init__(supplier.store_name, supplier.time_name, supplier.emit_strategy, supplier.send_old_values)
        self._gap_ms = supplier.windows.inactivity_gap_ms
        self._grace_and_gap_ms = supplier.windows.grace_period_ms + supplier.windows.inactivity_gap_ms
        self._initializer = supplier.initializer
        self._aggregator = supplier.aggregator
        self._merger = supplier.session_merger
        self._row: tuple[RecordBatch, int] | None = None
        """The row of a batch that is being folded."""

    def set_up(self, context: OperatorContext) -> None:
        """Take batches if no result is forwarded before a flush or the close of its session."""
        super().set_up(context)
        self.old_value = self._kept
        self.takes_batches = self._store.takes_rows and (self._emit_final or self._forwarder.waits_for_flush)
        if self.takes_batches and not self._emit_final:
            self._store.find_expired()

    def _store_of(self, store: Any) -> Any:
        return plain_sessions(store)

    def _flush_listener(self) -> FlushListener:
        return session_flush_listener(self._store, self._context)

    def process(self, record: Record[Any, Any]) -> None:
        """Aggregate one record; a null value is aggregated like any other."""
        key, timestamp = record.key, record.timestamp
        if key is None:
            skip_record(self._context, "null key")
            return
        stream_time = self._stream_time.observe(timestamp)
        self._fold(_StoredSessions(self, self._store, key), key, record.value, timestamp, stream_time)
        self._maybe_forward_final_result(record, stream_time - self._grace_and_gap_ms)

    def updated(self, session: Windowed[Any], old: Any, new: Any) -> None:
        """Forward what a single record has changed, unless a cache or the end of the session is waited for."""
        if not self._emit_final:
            change = Change(new, old if self._send_old_values else None)
            self._forwarder.maybe_forward(Record(session, change, session.window.end))

    def _fold(self, sessions: _SessionsOfKey, key: Any, value: Any, timestamp: int, stream_time: int) -> None:
        """Fold a record into the sessions of its key."""
        start = end = timestamp
        found = sessions.find(timestamp - self._gap_ms, timestamp + self._gap_ms)
        aggregate = self._initializer()
        for session_start, session_end, merged in found:
            aggregate = self._merger(key, aggregate, merged)
            if session_start < start:
                start = session_start
            if session_end > end:
                end = session_end
        close_time = stream_time - self._grace_and_gap_ms
        if end < close_time:
            if self._row is not None:
                self._context.enter_row(*self._row)
            skip_expired(self._context, timestamp, f"[{start},{end}]", close_time, stream_time)
            return
        # A session of this record's time alone keeps its key, so its old aggregate is not taken back.
        if start != timestamp or end != timestamp:
            sessions.remove_found()
        sessions.put(start, end, self._aggregator(key, value, aggregate))

    # -- results on close ----------------------------------------------------------------------------------------------

    def _emit_range_lower_bound(self) -> int:
        return max(0, self._last_emit_window_close_time)

    def _emit_range_upper_bound(self, window_close_time: int) -> int:
        # Both ends belong to a session: it closes after its end.
        return window_close_time - 1

    def _should_range_fetch(self, lower: int, upper: int) -> bool:
        return lower <= upper

    def _forward_all_closed(self, record: Record[Any, Any], lower: int, upper: int) -> int:
        with self._store.find_sessions_by_end(lower, upper) as found:
            if self._emitting is not None:
                closed = list(found)
                keys, times = [session for session, _ in closed], [session.window.end for session, _ in closed]
                self._forward_closed(keys, [Change(aggregate, None) for _, aggregate in closed], times, record)
                return len(keys)
            emitted = 0
            for session, aggregate in found:
                emitted += 1
                self._forwarder.maybe_forward(Record(session, Change(aggregate, None), session.window.end, record.headers))
        return emitted

    # -- batches -------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: RecordBatch) -> None:
        batch = self._rest(batch)
        if not len(batch):
            return
        keys = DistinctKeys(batch.keys, self._store.raw_keys)
        changes = _ChangedSessions(self._store, is_cached=not self._emit_final)
        sessions = self._read(batch, keys, changes)
        fold, node, stream_time = self._fold, self._context.current_node, self._stream_time.now
        rows = zip(keys.identities, batch.keys, batch.values, batch.timestamps)
        for row, (identity, key, value, timestamp) in enumerate(rows):
            if timestamp > stream_time:
                stream_time = timestamp
            self._row = batch, row
            changes.row = row
            try:
                fold(sessions[identity], key, value, timestamp, stream_time)
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc, node)
        self._row = None
        self._stream_time.observe(stream_time)
        if self._context.is_only_run:
            self._write_around(batch, keys, changes)
        else:
            self._put(batch, changes)

    def _read(self, batch: RecordBatch, keys: DistinctKeys, changes: _ChangedSessions) -> dict[Any, _BatchSessions]:
        gap = self._gap_ms
        bounds = {raw: (first - gap, last + gap) for raw, (first, last) in keys.spans(batch.timestamps).items()}
        found = self._store.kept_sessions_of(bounds)
        sessions = {}
        for identity, raw in zip(keys.distinct, keys.raw):
            of_key = found.get(raw, [])
            changes.stored.update(((identity, start, end), kept) for start, end, kept in of_key)
            sessions[identity] = _BatchSessions(changes, identity, of_key)
        return sessions

    def _put(self, batch: RecordBatch, changes: _ChangedSessions) -> None:
        """Leave the sessions in the cache, for more rows to change them before the commit."""
        for (_, start, end), (row, kept) in changes.changed.items():
            self._context.enter_row(batch, row)
            session = Windowed(batch.keys[row], SessionWindow(start, end))
            if kept is None:
                self._store.remove(session)
            else:
                self._store.put(session, self._store.give(kept))

    def _write_around(self, batch: RecordBatch, keys: DistinctKeys, changes: _ChangedSessions) -> None:
        store, stored = self._store, changes.stored
        raw = keys.raw_by_identity
        changed: list[tuple[_Session, int, Any]] = []
        olds: list[Any] = []
        expired: list[tuple[bytes, int, int]] = []
        observed, retention = store.observed_stream_time, store.retention_period
        for place, (row, kept) in changes.changed.items():
            old, end = stored.get(place), place[2]
            if old is not None and end <= observed - retention:
                old = None  # nobody but the cache would still have had it
            if old is None and kept is None and not self._emit_final:
                if place in stored:
                    expired.append((raw[place[0]], place[1], end))
                continue  # it came and went between two commits: it was never there for anybody
            if end > observed:
                observed = end
            changed.append((place, row, kept))
            olds.append(old)
        if expired:
            store.discard_sessions(expired)
        if not changed:
            return
        rows = [row for _, row, _ in changed]
        sessions = [(raw[identity], start, end) for (identity, start, end), _, _ in changed]
        kept_now = [kept for _, _, kept in changed]
        store.write_sessions_around(sessions, kept_now, [batch.timestamps[row] for row in rows])
        if not self._emit_final:
            typed = [place[0] for place, _, _ in changed] if keys.are_keys else store.keys_from([key for key, _, _ in sessions])
            self._forward(batch, rows, typed, sessions, kept_now, olds)

    def _forward(
        self,
        batch: RecordBatch,
        rows: list[int],
        keys: list[Any],
        sessions: list[tuple[bytes, int, int]],
        kept: list[Any],
        olds: list[Any],
    ) -> None:
        give_all, sources, headers = self._store.give_all, batch.sources, batch.headers
        old_values = give_all(olds) if self._send_old_values else [None] * len(olds)
        self._context.forward_batch(
            RecordBatch(
                [Windowed(key, SessionWindow(start, end)) for key, (_, start, end) in zip(keys, sessions)],
                [Change(new, old) for new, old in zip(give_all(kept), old_values)],
                [end for _, _, end in sessions],
                None if headers is None else [headers[row] for row in rows],
                batch.origin,
                rows if sources is None else [sources[row] for row in rows],
            )
        )


class SessionWindowValueGetter(KTableValueGetter):
    """Looks up the result of a session; its timestamp is the session's end."""

    is_versioned = False

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name

    def init(self, context: OperatorContext) -> None:
        self._fetch_session = plain_sessions(context.get_state_store(self._store_name)).fetch_session

    def get(self, key: Windowed[Any], as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """The result of a session, or None."""
        window = key.window
        aggregate = self._fetch_session(key.key, window.start, window.end)
        return None if aggregate is None else ValueAndTimestamp(aggregate, window.end)
