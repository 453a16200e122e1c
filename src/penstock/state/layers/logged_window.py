"""Change logging of window stores."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.record import Headers
from penstock.state.keys.window import MAX_SEQNUM, WindowKeySchema, window_suffix
from penstock.state.layers.changelog import ChangeLog
from penstock.state.layers.wrapped_window import WindowKey, WrappedWindowStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_formats import ValueFormat

_to_store_key = WindowKeySchema.to_store_key_binary


class ChangeLoggingWindowStore(WrappedWindowStore):
    """Logs every put under `key + window start + sequence number`.

    The sequence number is 0, or where duplicates are kept one more with each put. It continues where it was when a task comes
    back: two values of one key and one time would otherwise become one in the changelog.
    """

    passes_bytes = True

    def __init__(self, wrapped: StateStore, value_format: ValueFormat, retain_duplicates: bool) -> None:
        super().__init__(wrapped)
        self._format = value_format
        self._retain_duplicates = retain_duplicates
        self._seqnum: int | None = None

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._context = context
        self._changelog = ChangeLog(context, self._name, self._format)
        self._log = self._changelog.log
        self._seqnum = None
        super().init(context, root)
        self.fetch_small_windows = self._wrapped.fetch_small_windows  # type: ignore[method-assign]  # reads pass this layer
        self._put_at = self._wrapped.put_at

    def put(self, key: bytes, value: bytes | None, window_start: int) -> None:
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

    def put_windows(self, keys: Sequence[WindowKey], values: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        self._wrapped.put_windows(keys, values, record_times)
        self._changelog.log_many(WindowKeySchema.store_keys(keys), values, record_times)

    def put_duplicates(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Sequence[Headers] | None,
        logged: bool = False,
    ) -> list[bytes]:
        """Add the values of many records and log them; one that is None is logged too, with time and headers of its record."""
        store_keys = super().put_duplicates(keys, values, timestamps, headers, logged=True)
        self._seqnum = None  # the engine has counted on meanwhile
        if headers is None:
            self._context.log_columns(self._name, list(store_keys), list(values), list(timestamps))
        else:
            for key, value, time, of_record in zip(store_keys, values, timestamps, headers):
                self._context.log_change(self._name, key, value, time, of_record)
        return store_keys

    def _next_seqnum(self) -> int:
        if self._seqnum is None:
            # Asked for with the first put and not in `init`: the changelog is restored in between.
            self._seqnum = int(self._wrapped.changelog_seqnum)
        self._seqnum = (self._seqnum + 1) & MAX_SEQNUM
        return self._seqnum
