"""Change logging of key-value stores: every write also goes to the changelog topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE


class ChangeLoggingKeyValueStore(WrappedKeyValueStore):
    """Logs key and value as they are, at the time of the record being processed."""

    passes_bytes = True

    _context: StateStoreContext
    _log_change: Callable[..., None]

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Open the wrapped store; what an LRU map evicts from now on is logged as deleted."""
        self._context = context
        self._log_change = context.log_change
        super().init(context, root)
        self.get = self._wrapped.get  # type: ignore[method-assign]  # reads are not this layer's business: 0.2 us for each
        self._wrapped.set_when_eldest_removed(lambda key, _: self._log(key, None))

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes."""
        self._wrapped.put(key, value)
        self._log(key, value)

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set only where there is none; returns what was there."""
        previous: bytes | None = self._wrapped.put_if_absent(key, value)
        if previous is None:
            self._log(key, value)
        return previous

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set many at once."""
        written = list(entries)
        self._wrapped.put_all(written)
        for key, value in written:
            self._log(key, value)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys."""
        found: list[bytes | None] = self._wrapped.multi_get(keys)
        return found

    def delete(self, key: bytes) -> Any:
        """Remove a key; returns what was there."""
        previous = self._wrapped.delete(key)
        self._log(key, None)
        return previous

    def _log(self, key: bytes, value: bytes | None) -> None:
        self._log_change(self._name, key, value, self._record_timestamp())

    def _record_timestamp(self) -> int:
        record_context = self._context.record_context
        return self._context.current_system_time_ms() if record_context is None else record_context.timestamp


class ChangeLoggingTimestampedKeyValueStore(ChangeLoggingKeyValueStore):
    """Logs the value alone, with its own timestamp as the record's; deletions at the time of the record processed."""

    def write_through(self, entries: Sequence[tuple[bytes, bytes | None]], timestamps: Sequence[int]) -> None:
        """Set many at once, and log them at once."""
        self._wrapped.write_through(entries, timestamps)
        read = int.from_bytes
        self._context.log_columns(
            self._name,
            [key for key, _ in entries],
            [None if value is None else value[TIMESTAMP_SIZE:] for _, value in entries],
            [
                timestamp if value is None else read(value[:TIMESTAMP_SIZE], "big", signed=True)
                for (_, value), timestamp in zip(entries, timestamps)
            ],
        )

    def _log(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._log_change(self._name, key, None, self._record_timestamp())
        else:
            timestamp = int.from_bytes(value[:TIMESTAMP_SIZE], "big", signed=True)
            self._log_change(self._name, key, value[TIMESTAMP_SIZE:], timestamp)
