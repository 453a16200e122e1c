"""Batches in an aggregation over sessions: count, aggregate and reduce of many records at once.

1. The sessions that the rows can fall into are read at once, each key's within the times of its own rows.
2. The rows are merged into them in memory, in their order.
3. What has changed is written at once, each session once, at its last change, which is what a cache keeps. Where the rows are all
   there is until the commit, it goes past the cache, and the changes are forwarded as batch.

With a cache, sessions that have expired are found for as long as it has room; past it, until the store drops their segment
(`find_expired`). Without a cache none are found.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from penstock.batches.record_batch import RecordBatch
from penstock.change import Change
from penstock.operators.results_on_close import ResultsOnClose
from penstock.operators.skipped import skip_expired
from penstock.operators.table_columns import DistinctKeys
from penstock.operators.time_tracker import StreamTime
from penstock.windows import SessionWindow, Windowed

_Sessions = list[tuple[int, int, int, Any]]
"""End, start, row and kept aggregate of sessions of a key, in the order of the store; by the row no two are compared further."""

_Session = tuple[Any, int, int]
"""What stands for a key, start and end of one of its sessions."""


class _Turn(NamedTuple):
    """The sessions of a turn."""

    now: dict[Any, _Sessions]
    """Of each key, in the order of the store."""

    stored: dict[_Session, Any]
    """What was there before."""

    changed: dict[_Session, tuple[int, Any]]
    """The row that changed a session last and what is kept of it, in the order of these changes; None where it is gone."""


class SessionColumns(ResultsOnClose):
    """Merges records into sessions, many at a time."""

    _store: Any
    _stream_time: StreamTime
    _gap_ms: int
    _grace_and_gap_ms: int
    _aggregator: Callable[[Any, Any, Any], Any]
    _send_old_values: bool
    _is_cached: bool

    @abstractmethod
    def _merged(self, key: Any, timestamp: int, sessions: Iterable[tuple[int, int, Any]]) -> tuple[int, int, Any]:
        """Start, end and aggregate of the sessions (start, end and aggregate of each) that a record brings together."""

    def _take_batches(self, waits_for_flush: bool) -> None:
        """Offer the face where the store has what it needs."""
        self._is_cached = not self._emit_final
        self.takes_batches = self._store.takes_rows and (self._emit_final or waits_for_flush)
        if self.takes_batches and self._is_cached:
            self._store.find_expired()

    def process_batch(self, batch: RecordBatch) -> None:
        """Merge many records."""
        batch = self._rest(batch)
        if not len(batch):
            return
        keys = DistinctKeys(batch.keys, self._store.raw_keys)
        turn = self._read(batch, keys)
        self._merge(batch, keys, turn)
        if self._context.is_only_run:
            self._write_through(batch, keys, turn)
        else:
            self._put(batch, turn)

    def _read(self, batch: RecordBatch, keys: DistinctKeys) -> _Turn:
        gap = self._gap_ms
        bounds = {raw: (first - gap, last + gap) for raw, (first, last) in keys.spans(batch.timestamps).items()}
        turn = _Turn({}, {}, {})
        found = self._store.kept_sessions_of(bounds)
        if found:
            for identity, raw in zip(keys.distinct, keys.raw):
                of_key = found.get(raw)
                if of_key is not None:
                    turn.now[identity] = [(end, start, -1, kept) for start, end, kept in of_key]
                    turn.stored.update(((identity, start, end), kept) for start, end, kept in of_key)
        return turn

    def _merge(self, batch: RecordBatch, keys: DistinctKeys, turn: _Turn) -> None:
        """Merge row by row; one that fails leaves what was done for it until then, as it does with single records."""
        now, stored, changed = turn.now, turn.stored, turn.changed
        merged, aggregator, keep, give = self._merged, self._aggregator, self._store.keep, self._store.give
        gap, grace_and_gap, is_cached = self._gap_ms, self._grace_and_gap_ms, self._is_cached
        observed, retention = self._store.observed_stream_time, self._store.retention_period
        stream_time = self._stream_time.now
        rows = zip(keys.identities, batch.keys, batch.values, batch.timestamps)
        for row, (identity, key, value, timestamp) in enumerate(rows):
            if timestamp > stream_time:
                stream_time = timestamp
            of_key = now.get(identity)
            if of_key is None:
                of_key = now[identity] = []
            earliest = timestamp - gap if is_cached else max(timestamp - gap, observed - retention + 1)
            found: _Sessions = []
            if of_key and of_key[-1][0] >= earliest:
                latest = timestamp + gap
                found = [session for session in of_key[bisect_left(of_key, (earliest,)) :] if session[1] <= latest]
            try:
                start, end, aggregate = merged(key, timestamp, [(start, end, give(kept)) for end, start, _, kept in found])
                if end < stream_time - grace_and_gap:
                    self._context.enter_row(batch, row)
                    skip_expired(self._context, timestamp, f"[{start},{end}]", stream_time - grace_and_gap, stream_time)
                    continue
                if start != end or start != timestamp:
                    for session in found:
                        of_key.remove(session)
                        gone = identity, session[1], session[0]
                        changed.pop(gone, None)
                        if gone in stored or not is_cached:
                            changed[gone] = row, None
                kept = keep(aggregator(key, value, aggregate))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.row_failed(batch, row, exc)
                continue
            if found and start == end == timestamp:
                of_key.remove(found[0])
            place = identity, start, end
            changed.pop(place, None)
            changed[place] = row, kept
            if end > observed:
                observed = end
            if kept is None:
                continue
            if not of_key or of_key[-1][0] < end:
                of_key.append((end, start, row, kept))
            else:
                insort(of_key, (end, start, row, kept))
        self._stream_time.observe(stream_time)

    def _put(self, batch: RecordBatch, turn: _Turn) -> None:
        """Leave the sessions in the cache, for more records of the turn to change them."""
        for (_, start, end), (row, kept) in turn.changed.items():
            self._context.enter_row(batch, row)
            session = Windowed(batch.keys[row], SessionWindow(start, end))
            if kept is None:
                self._store.remove(session)
            else:
                self._store.put(session, self._store.give(kept))

    def _write_through(self, batch: RecordBatch, keys: DistinctKeys, turn: _Turn) -> None:
        store, stored = self._store, turn.stored
        raw = keys.raw_by_identity
        changed: list[tuple[_Session, int, Any]] = []
        olds: list[Any] = []
        expired: list[tuple[bytes, int, int]] = []
        observed, retention = store.observed_stream_time, store.retention_period
        for place, (row, kept) in turn.changed.items():
            old, end = stored.get(place), place[2]
            if old is not None and end <= observed - retention:
                old = None  # nobody but the cache would still have had it
            if old is None and kept is None and self._is_cached:
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
        store.write_sessions_through(sessions, kept_now, [batch.timestamps[row] for row in rows])
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
