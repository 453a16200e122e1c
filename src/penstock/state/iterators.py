"""Iterators over stores: they can peek, close what they hold, and lay one sorted source over another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from penstock.errors import InvalidStateStoreError
from penstock.state.store import StoreIterator

K = TypeVar("K")
V = TypeVar("V")

ByteEntry = tuple[bytes, bytes]
ByteIterator = StoreIterator[ByteEntry]

_log = logging.getLogger(__name__)
_NOTHING: Any = object()
_ENDED: Iterator[Any] = iter(())


class PeekingIterator(StoreIterator[tuple[K, V]]):
    """Entries of any source, with a look at the next one and a `close` that lets go of the source.

    The end of the entries lets go of the source too, so that a plain `for` loop holds nothing afterwards.

    >>> with PeekingIterator([(b"a", b"1")], "store") as entries:
    ...     entries.peek_next_key(), entries.has_next(), next(entries), entries.has_next()
    (b'a', True, (b'a', b'1'), False)
    """

    __slots__ = ("_closed", "_on_close", "_peeked", "_source", "_store_name")

    def __init__(
        self, source: Iterable[tuple[K, V]], store_name: str, on_close: Callable[[PeekingIterator[K, V]], None] | None = None
    ) -> None:
        self._source: Iterator[tuple[K, V]] = iter(source)
        self._store_name = store_name
        self._on_close = on_close
        self._peeked: Any = _NOTHING
        self._closed = False

    def __next__(self) -> tuple[K, V]:
        entry: tuple[K, V] = self._peeked
        if entry is not _NOTHING:
            self._peeked = _NOTHING
            return entry
        try:
            return next(self._source)
        except StopIteration:
            if self._closed:
                self._raise_closed()
            self._release()
            raise

    def has_next(self) -> bool:
        if self._peeked is _NOTHING and not self._closed:
            self._peeked = next(self, _NOTHING)
        return self._peeked is not _NOTHING

    def peek(self) -> tuple[K, V]:
        """The next entry, which stays the next; raises StopIteration after the last."""
        if not self.has_next():
            raise StopIteration
        entry: tuple[K, V] = self._peeked
        return entry

    def peek_next_key(self) -> K:
        return self.peek()[0]

    def close(self) -> None:
        """Let go of the source; calling it twice is fine."""
        if not self._closed:
            self._closed = True
            self._peeked = _NOTHING
            self._release()

    def _release(self) -> None:
        source, self._source = self._source, _ENDED
        close = getattr(source, "close", None)
        if close is not None:
            close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)

    def _raise_closed(self) -> NoReturn:
        raise InvalidStateStoreError(f"Iterator for store {self._store_name} has already been closed.")


class MeteredIterator(PeekingIterator[K, V]):
    """Entries of a typed store: the iterator counts as open until it ends, and ends with its store.

    After the store is closed there is no next entry; with `raises_if_closed` looking for one raises, as over RocksDB in Kafka
    Streams.
    """

    __slots__ = ("_finished", "_opened", "_raises_if_closed")

    def __init__(
        self,
        source: Iterable[tuple[K, V]],
        store_name: str,
        entries: StoreIterator[Any],
        opened: dict[int, int],
        finished: Callable[[], None],
        raises_if_closed: bool = False,
    ) -> None:
        def close(_: Any) -> None:
            try:
                entries.close()
            finally:
                finished()

        super().__init__(source, store_name, close)
        self._opened = opened
        self._finished = id(finished)
        self._raises_if_closed = raises_if_closed

    def __next__(self) -> tuple[K, V]:
        if self._finished not in self._opened:
            self._end_with_store()
        entry: tuple[K, V] = self._peeked
        if entry is not _NOTHING:
            self._peeked = _NOTHING
            return entry
        try:
            return next(self._source)
        except StopIteration:
            if self._closed:
                self._raise_closed()
            self._release()
            raise

    def has_next(self) -> bool:
        if self._finished not in self._opened:
            self._end_with_store()
        return super().has_next()

    def _end_with_store(self) -> None:
        if self._on_close is None:
            return  # it has ended by itself, or was closed
        self._peeked = _NOTHING
        if self._raises_if_closed:
            raise InvalidStateStoreError(f"Store {self._store_name} has been closed, and its iterators with it.")
        self._release()


class SmallEntries(PeekingIterator[K, V]):
    """Entries that were read before somebody asks for them, so that there is nothing to let go of.

    It is `opened`, by its id, until it has ended or is closed. Made for each record that a processor looks something up for: a
    third of what a `PeekingIterator` takes.

    >>> opened = {}
    >>> with SmallEntries([(1, b"a")], bytes.decode, "store", opened, 5) as entries:
    ...     list(opened.values()), list(entries), opened
    ([5], [(1, 'a')], {})
    """

    __slots__ = ("_left", "_opened", "_value_from")

    def __init__(
        self, entries: list[tuple[K, bytes]], value_from: Callable[[bytes], V], store_name: str, opened: dict[int, int], now: int
    ) -> None:
        if len(entries) > 1:
            entries.reverse()
        self._left, self._value_from, self._opened = entries, value_from, opened
        self._store_name = store_name
        self._peeked: Any = _NOTHING
        self._closed = False
        opened[id(self)] = now

    def __next__(self) -> tuple[K, V]:
        if id(self) not in self._opened:
            self._peeked, self._left = _NOTHING, []  # the store has been closed, or the iterator has ended
        entry: tuple[K, V] = self._peeked
        if entry is not _NOTHING:
            self._peeked = _NOTHING
            return entry
        if self._left:
            key, raw = self._left.pop()
            return key, self._value_from(raw)
        if self._closed:
            self._raise_closed()
        self._opened.pop(id(self), None)
        raise StopIteration

    def has_next(self) -> bool:
        """Whether another entry follows; False after `close`, and after that of the store."""
        if id(self) not in self._opened:
            self._peeked, self._left = _NOTHING, []
        return super().has_next()

    def close(self) -> None:
        """Forget what is left; calling it twice is fine."""
        self._closed = True
        self._peeked = _NOTHING
        self._left = []
        self._opened.pop(id(self), None)


def empty_iterator(store_name: str) -> PeekingIterator[Any, Any]:
    """An iterator over nothing."""
    return PeekingIterator((), store_name)


def is_inverted(key_from: bytes | None, key_to: bytes | None) -> bool:
    """Whether a range is upside down; says so in the log, since it is nearly always a mistake."""
    if key_from is None or key_to is None or key_from <= key_to:
        return False
    _log.warning(
        "Returning empty iterator for fetch with invalid key range: from > to. "
        "This may be due to range arguments set in the wrong order, "
        "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
        "Note that the built-in numerical serdes do not follow this for negative numbers"
    )
    return True


def prefix_end(prefix: bytes) -> bytes | None:
    """The lowest key above all keys that start with `prefix`; None where there is no such key.

    >>> prefix_end(b"ab"), prefix_end(b"a\\xff"), prefix_end(b"\\xff")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def overlay(upper: Iterable[tuple[bytes, bytes | None]], lower: Iterable[ByteEntry], forward: bool = True) -> Iterator[ByteEntry]:
    """Two sorted sources as one: at equal keys the upper one counts, and its None hides the key below."""
    above = iter(upper)
    below = iter(lower)
    high = next(above, None)
    low = next(below, None)
    while high is not None and low is not None:
        high_key = high[0]
        low_key = low[0]
        if high_key == low_key:
            low = next(below, None)
        elif (low_key < high_key) is forward:
            yield low
            low = next(below, None)
            continue
        if high[1] is not None:
            yield high  # type: ignore[misc]
        high = next(above, None)
    while high is not None:
        if high[1] is not None:
            yield high  # type: ignore[misc]
        high = next(above, None)
    if low is not None:
        yield low
        yield from below
