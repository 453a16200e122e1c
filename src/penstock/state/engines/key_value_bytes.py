"""What the key-value engines share: the whole interface in terms of `get`, `put` and one scan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

from penstock.state.engines.base import StoreEngine
from penstock.state.iterators import ByteIterator, empty_iterator, is_inverted, prefix_end
from penstock.state.ranges import KeyValueRanges

Serializer = Callable[[str, object], "bytes | None"]


class KeyValueBytesStore(StoreEngine, KeyValueRanges[bytes, bytes]):
    """A key-value store of bytes; iterators run in the order of unsigned bytes."""

    takes_rows = True
    writes_rows = True

    def put_if_absent(self, key: bytes, value: bytes | None) -> bytes | None:
        existing = self.get(key)
        if existing is None and value is not None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def write_around(self, entries: Sequence[tuple[bytes, bytes | None]], timestamps: Sequence[int]) -> None:
        """Set many at once; there is no cache on the way here."""
        self.put_all(entries)

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys."""
        return [self.get(key) for key in keys]

    def delete(self, key: bytes) -> bytes | None:
        existing = self.get(key)
        self.put(key, None)
        return existing

    def range(self, key_from: bytes | None, key_to: bytes | None, forward: bool = True) -> ByteIterator:
        self._validate_open()
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        return self.scan(key_from, key_to, forward=forward)

    def all(self, forward: bool = True) -> ByteIterator:
        self._validate_open()
        return self.scan(None, None, forward=forward)

    def prefix_scan(self, prefix: object, prefix_serializer: Serializer) -> ByteIterator:
        self._validate_open()
        key_from = prefix_bytes(prefix, prefix_serializer)
        return self.scan(key_from, prefix_end(key_from), to_inclusive=False)

    @abstractmethod
    def scan(
        self, key_from: bytes | None, key_to: bytes | None, *, to_inclusive: bool = True, forward: bool = True
    ) -> ByteIterator:
        """The one range read that all others are made of."""


def prefix_bytes(prefix: object, prefix_serializer: Serializer) -> bytes:
    """The bytes of a prefix; there is no topic to name to the serializer here."""
    key_from = prefix_serializer("", prefix)
    if key_from is None:
        raise ValueError("the prefix serializer gave None: a prefix scan needs bytes")
    return key_from
