"""A store of a simpler format under a builder of a richer one: what it cannot keep is taken off and given back as unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.state.iterators import ByteIterator, PeekingIterator
from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore
from penstock.state.value_and_timestamp import UNKNOWN_TIMESTAMP, raw_value
from penstock.state.value_timestamp_headers import from_plain_value, from_timestamped_value, plain_value, timestamped_value

ToWrapped = Callable[["bytes | None"], "bytes | None"]
FromWrapped = Callable[[bytes], bytes]


class ConvertingKeyValueStore(WrappedKeyValueStore):
    """Converts values on their way into the wrapped store and out of it."""

    takes_rows = False  # what it takes off does not come back

    def __init__(self, wrapped: Any, to_wrapped: ToWrapped, from_wrapped: FromWrapped) -> None:
        super().__init__(wrapped)
        self._to_wrapped = to_wrapped
        self._from_wrapped = from_wrapped

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        return self._back(self._wrapped.get(key))

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes."""
        self._wrapped.put(key, self._to_wrapped(value))

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        """Set only where there is none; returns what was there."""
        return self._back(self._wrapped.put_if_absent(key, self._to_wrapped(value)))

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set many at once."""
        self._wrapped.put_all([(key, self._to_wrapped(value)) for key, value in entries])

    def delete(self, key: bytes) -> bytes | None:
        """Remove a key; returns what was there."""
        return self._back(self._wrapped.delete(key))

    def range(self, key_from: bytes | None, key_to: bytes | None, forward: bool = True) -> ByteIterator:
        return self._converted(self._wrapped.range(key_from, key_to, forward))

    def all(self, forward: bool = True) -> ByteIterator:
        return self._converted(self._wrapped.all(forward))

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> ByteIterator:
        """Entries whose key starts with the serialized prefix."""
        return self._converted(self._wrapped.prefix_scan(prefix, prefix_serializer))

    def _back(self, value: bytes | None) -> bytes | None:
        return None if value is None else self._from_wrapped(value)

    def _converted(self, entries: Any) -> ByteIterator:
        from_wrapped = self._from_wrapped
        converted = ((key, from_wrapped(value)) for key, value in entries)
        return PeekingIterator(converted, self._name, lambda _: entries.close())


def plain_under_timestamped(store: Any) -> ConvertingKeyValueStore:
    """A plain store for `ValueAndTimestamp`: timestamps come back as -1."""
    return ConvertingKeyValueStore(store, raw_value, UNKNOWN_TIMESTAMP.__add__)


def plain_under_headers(store: Any) -> ConvertingKeyValueStore:
    """A plain store for `ValueTimestampHeaders`: timestamps come back as -1 and headers as none."""
    return ConvertingKeyValueStore(store, plain_value, from_plain_value)


def timestamped_under_headers(store: Any) -> ConvertingKeyValueStore:
    """A timestamped store for `ValueTimestampHeaders`: headers come back as none."""
    return ConvertingKeyValueStore(store, timestamped_value, from_timestamped_value)
