"""The layers of key-value stores that keep the headers of a record with its value and timestamp."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.value_and_timestamp import TIMESTAMP_SIZE, timestamp
from penstock.state.value_timestamp_headers import ValueTimestampHeaders, serialize_headers, split_headers

K = TypeVar("K")
V = TypeVar("V")


class ChangeLoggingKeyValueStoreWithHeaders(ChangeLoggingKeyValueStore):
    """Logs the value alone, with its own timestamp and headers as the record's; deletions with those being processed."""

    def _log(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            record_context = self._context.record_context
            headers = () if record_context is None else record_context.headers
            self._log_change(self._name, key, None, self._record_timestamp(), headers)
        else:
            headers, rest = split_headers(value)
            self._log_change(self._name, key, rest[TIMESTAMP_SIZE:], timestamp(rest), headers)


class MeteredKeyValueStoreWithHeaders(MeteredKeyValueStore[K, ValueTimestampHeaders[V]], Generic[K, V]):
    """Values come and go as `ValueTimestampHeaders`."""

    query_kind = ("key_value", "headers")

    def _raw_from_value(self, value: ValueTimestampHeaders[Any] | None) -> bytes | None:
        if value is None or value.value is None:
            return None
        raw = self._serdes.raw_value(value.value)
        if raw is None:
            return None
        # The operators of tables put a value and its timestamp only: their results have no headers of their own.
        headers = serialize_headers(getattr(value, "headers", ()))
        return headers + value.timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + bytes(raw)

    def _value_from_raw(self, raw: bytes | None) -> ValueTimestampHeaders[V] | None:
        if raw is None:
            return None
        headers, rest = split_headers(raw)
        value = self._serdes.value_from(rest[TIMESTAMP_SIZE:])
        return None if value is None else ValueTimestampHeaders(value, timestamp(rest), headers)
