"""Change logging of window stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema, window_suffix
from penstock.state.layers.wrapped_window import Place, WrappedWindowStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE

_to_store_key = WindowKeySchema.to_store_key_binary


class ChangeLoggingWindowStore(WrappedWindowStore):
    """Logs every put under `key + window start + sequence number`, at the time of the record being processed.

    The sequence number is 0, or where duplicates are kept one more with each put. It goes on from where it was when a task comes
    back: two values of one key and one time would otherwise become one in the changelog.
    """

    passes_bytes = True
    _context: StateStoreContext
    _log_change: Callable[..., None]

    def __init__(self, wrapped: Any, retain_duplicates: bool) -> None:
        super().__init__(wrapped)
        self._retain_duplicates = retain_duplicates
        self._seqnum: int | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the wrapped store."""
        self._context = context
        self._log_change = context.log_change
        self._seqnum = None
        super().init(context, root)
        self.few_windows = self._wrapped.few_windows  # type: ignore[method-assign]  # reads are not this layer's business
        self._put_at = self._wrapped.put_at

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
        """Set the value of a key's window; None deletes."""
        if self._put_at is not None:
            store_key = key + window_suffix(window_start, 0)
            self._put_at(window_start, store_key, value)
            self._log(store_key, value)
            return
        seqnum = self._next_seqnum() if self._retain_duplicates else 0
        self._wrapped.put(key, value, window_start)
        self._log(_to_store_key(key, window_start, seqnum), value)
        if value is None and self._retain_duplicates:
            # The engine takes no deletion of duplicates, yet the changelog has used up a number.
            self._wrapped.changelog_seqnum = seqnum

    def _log(self, key: bytes, value: bytes | None) -> None:
        record_context = self._context.record_context
        timestamp = self._context.current_system_time_ms() if record_context is None else record_context.timestamp
        self._log_change(self._name, key, value, timestamp)

    def _record_timestamp(self) -> int:
        record_context = self._context.record_context
        return self._context.current_system_time_ms() if record_context is None else record_context.timestamp

    def _next_seqnum(self) -> int:
        if self._seqnum is None:
            # Asked for with the first put and not in `init`: the changelog is restored in between.
            self._seqnum = int(self._wrapped.changelog_seqnum)
        self._seqnum = (self._seqnum + 1) & MAX_SEQNUM
        return self._seqnum


class ChangeLoggingTimestampedWindowStore(ChangeLoggingWindowStore):
    """Logs the value alone, with its own timestamp as the record's; deletions at the time of the record processed."""

    def put_places(self, places: Sequence[Place], values: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the values of many keys and window starts, and log them at once."""
        self._wrapped.put_places(places, values, record_times)
        read = int.from_bytes
        self._context.log_columns(
            self._name,
            WindowKeySchema.store_keys(places),
            [None if value is None else value[TIMESTAMP_SIZE:] for value in values],
            [
                timestamp if value is None else read(value[:TIMESTAMP_SIZE], "big", signed=True)
                for value, timestamp in zip(values, record_times)
            ],
        )

    def _log(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._log_change(self._name, key, None, self._record_timestamp())
        else:
            timestamp = int.from_bytes(value[:TIMESTAMP_SIZE], "big", signed=True)
            self._log_change(self._name, key, value[TIMESTAMP_SIZE:], timestamp)
