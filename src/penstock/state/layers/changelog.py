"""Changes of a store as records of its changelog."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.record import Headers
from penstock.state.store import StateStoreContext
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE
from penstock.state.value_formats import PLAIN, TIMESTAMPED, ValueFormat


class ChangeLog:
    """Writes the plain value with the timestamp and headers that the store keeps with it.

    Where it keeps none, and for deletions, the timestamp is that of the record being processed. Deletions have the headers of
    that record if the store keeps headers.
    """

    def __init__(self, context: StateStoreContext, store_name: str, value_format: ValueFormat) -> None:
        self._context = context
        self._log_change = context.log_change
        self._name = store_name
        self._format = value_format
        # Chosen once: every put is logged.
        logs: dict[ValueFormat, Callable[[bytes, bytes | None], None]]
        logs = {PLAIN: self._log_plain, TIMESTAMPED: self._log_timestamped}
        self.log = logs.get(value_format, self._log)

    def log_many(self, keys: list[bytes], values: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Log the bytes of many values, put by records of these times."""
        if self._format is PLAIN:
            self._context.log_columns(self._name, keys, list(values), list(record_times))
            return
        plain: list[bytes | None] = []
        times: list[int] = []
        headers: list[Headers] = []
        split = self._format.split
        for raw, record_time in zip(values, record_times):
            if raw is None:
                plain.append(None)
                times.append(record_time)
                headers.append(())
            else:
                value, timestamp, of_value = split(raw)
                plain.append(value)
                times.append(record_time if timestamp is None else timestamp)
                headers.append(of_value)
        self._context.log_columns(self._name, keys, plain, times, headers if self._format.keeps_headers else None)

    def _log_plain(self, key: bytes, raw: bytes | None) -> None:
        self._log_change(self._name, key, raw, self._record_time())

    def _log_timestamped(self, key: bytes, raw: bytes | None) -> None:
        if raw is None:
            self._log_change(self._name, key, None, self._record_time())
        else:
            timestamp = int.from_bytes(raw[:TIMESTAMP_SIZE], "big", signed=True)
            self._log_change(self._name, key, raw[TIMESTAMP_SIZE:], timestamp)

    def _log(self, key: bytes, raw: bytes | None) -> None:
        if raw is None:
            record = self._context.record_context
            self._log_change(self._name, key, None, self._record_time(), () if record is None else record.headers)
        else:
            value, timestamp, headers = self._format.split(raw)
            self._log_change(self._name, key, value, self._record_time() if timestamp is None else timestamp, headers)

    def _record_time(self) -> int:
        record = self._context.record_context
        return self._context.current_system_time_ms() if record is None else record.timestamp
