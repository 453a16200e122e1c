"""Many values under one key, as the buffer of an outer join needs them: every put adds one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from penstock.serdes.serde import Serdes
from penstock.state.iterators import ByteIterator, PeekingIterator
from penstock.state.layers.logged_key_value import ChangeLoggingKeyValueStore
from penstock.state.layers.metered_key_value import MeteredKeyValueStore
from penstock.state.layers.wrapped_key_value import WrappedKeyValueStore

_LIST_SERDE = Serdes.list_of(Serdes.bytes())
_to_bytes = _LIST_SERDE.serializer
_from_bytes = _LIST_SERDE.deserializer
_LIST_OF_ONE = (_to_bytes("", [b""]) or b"")[:-4]
"""What the bytes of a list of one value begin with: its length and the value follow."""

K = TypeVar("K")
V = TypeVar("V")


class ListValueStore(WrappedKeyValueStore):
    """A key-value store whose value is the list of all that was put under a key; a put of None deletes the list.

    `all` gives each value of each list as an entry of its own.
    """

    def put(self, key: bytes, value: bytes | None) -> None:
        """Add a value to a key's list; None deletes the list."""
        if value is None:
            self._wrapped.put(key, None)
        else:
            self._append(key, value, self._wrapped.get(key))

    def put_if_absent(self, key: bytes, value: bytes | None) -> None:
        """Add to (None: delete) a list that is there; a key without one is left alone. Never returns a value."""
        existing = self._wrapped.get(key)
        if existing is not None:
            if value is None:
                self._wrapped.put(key, None)
            else:
                self._append(key, value, existing)

    def write_lists(self, keys: Sequence[bytes], lists: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the lists of keys in this order, by records of these times; None deletes one."""
        self._wrapped.put_all(zip(keys, lists))

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The lists of many keys, as bytes; None where a key has none."""
        lists: list[bytes | None] = self._wrapped.multi_get(keys)
        return lists

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> NoReturn:
        """Not supported."""
        self._refuse("put_all")

    def delete(self, key: bytes) -> NoReturn:
        """Not supported: what it would return is a list, and no value."""
        self._refuse("delete")

    def range(self, key_from: bytes | None, key_to: bytes | None, forward: bool = True) -> NoReturn:
        """Not supported."""
        self._refuse("range" if forward else "reverse_range")

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> NoReturn:
        """Not supported."""
        self._refuse("prefix_scan")

    def all(self, forward: bool = True) -> ByteIterator:
        """Return each value of each list, in the order of keys and of the puts."""
        if not forward:
            self._refuse("reverse_all")
        entries = self._wrapped.all(True)
        return PeekingIterator(_unfold(entries), self._name, lambda _: entries.close())

    def _append(self, key: bytes, value: bytes, existing: bytes | None) -> None:
        self._wrapped.put(key, appended(existing, value))

    def _refuse(self, operation: str) -> NoReturn:
        raise NotImplementedError(f"{operation} is not supported by store {self._name}: it keeps a list under each key")


class ChangeLoggingListValueStore(ChangeLoggingKeyValueStore):
    """Logs the whole list with every value added to it."""

    def put(self, key: bytes, value: bytes | None) -> None:
        """Add a value to a key's list; None deletes the list."""
        self._wrapped.put(key, value)
        self._log(key, None if value is None else self._wrapped.get(key))

    def put_if_absent(self, key: bytes, value: bytes | None) -> None:
        """Add to (None: delete) a list that is there."""
        if self._wrapped.get(key) is not None:
            self.put(key, value)

    def write_lists(self, keys: Sequence[bytes], lists: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the lists of keys in this order, and log them at once."""
        self._wrapped.write_lists(keys, lists, record_times)
        self._context.log_columns(self._name, list(keys), list(lists), list(record_times))


class MeteredListValueStore(MeteredKeyValueStore[K, V], Generic[K, V]):
    """The typed layer: an entry of each value, and whole lists as bytes for many keys at once, where `takes_rows`."""

    def raw_key(self, key: K) -> bytes:
        """A key as bytes."""
        raw: bytes = self._raw_key(key)
        return raw

    def raw_value(self, value: V) -> bytes | None:
        """A value as bytes; None where its serde writes none."""
        return self._raw_from_value(value)

    def lists_of(self, raw_keys: Sequence[bytes]) -> list[bytes | None]:
        """The lists of many keys, as bytes; None where a key has none."""
        lists: list[bytes | None] = self._wrapped.multi_get(raw_keys)
        return lists

    def write_lists(self, raw_keys: Sequence[bytes], lists: Sequence[bytes | None], record_times: Sequence[int]) -> None:
        """Set the lists of keys in this order, by records of these times; None deletes one."""
        self._wrapped.write_lists(raw_keys, lists, record_times)


def appended(existing: bytes | None, value: bytes) -> bytes:
    """The bytes of a list with one value more; None stands for no list."""
    if existing is None:
        return _LIST_OF_ONE + len(value).to_bytes(4, "big") + value
    return _to_bytes("", [*_values(existing), value]) or b""


def _values(raw: bytes) -> list[bytes]:
    return _from_bytes("", raw) or []


def _unfold(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for key, raw in entries:
        for value in _values(raw):
            yield key, value
