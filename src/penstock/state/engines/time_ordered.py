"""What the stores that results are emitted from at window close share: values in the order of time, and an index by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.state.engines.segmented import AbstractSegmentedBytesStore
from penstock.state.engines.segments import PREFIX_SIZE
from penstock.state.engines.store_format import StoreFormat
from penstock.state.iterators import PeekingIterator, empty_iterator
from penstock.state.keys.prefixed import BaseKeySchema, IndexKeySchema, is_base_key
from penstock.state.keys.schema import KeySchema, Matcher
from penstock.state.value_formats import PLAIN, TIMESTAMPED

K = TypeVar("K")

_INDEXED = b""


class TimeOrderedSegmentedBytesStore(AbstractSegmentedBytesStore):
    """A base layout, and with `with_index` a second key for each entry in the index layout.

    A window is still seen when it is exactly as old as the retention, since with a grace period of that length it is then that
    its result is due; a session is not.
    """

    def __init__(
        self,
        name: str,
        retention_period: int,
        segment_interval: int,
        base_schema: BaseKeySchema,
        index_schema: IndexKeySchema | None,
        is_window: bool,
        retain_duplicates: bool = False,
    ) -> None:
        layout = f"time-ordered{'' if index_schema is None else '-indexed'}-{'window' if is_window else 'session'}"
        store_format = StoreFormat(layout, TIMESTAMPED if is_window else PLAIN, duplicates=retain_duplicates)
        min_age = 0 if is_window else 1
        super().__init__(name, retention_period, segment_interval, base_schema, store_format, is_window, min_age)
        self._base = base_schema
        self._index = index_schema

    @property
    def has_index(self) -> bool:
        """Whether entries of one key can be found without reading all others."""
        return self._index is not None

    @property
    def _scanned_schema(self) -> KeySchema:
        return self._index or self._schema

    def to_store_key(self, changelog_key: bytes) -> bytes:
        return self._base.from_changelog_key(changelog_key)

    def _time_of(self, key: bytes) -> int:
        return super()._time_of(key if is_base_key(key) else self._base.from_index_key(key))

    def fetch(self, key: bytes, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        actual_from = self._actual_from(from_)
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        schema = self._scanned_schema
        return self._scan_keys(
            self._segments.search(*schema.segments_to_search(actual_from, to), forward),
            schema.lower_range_fixed_size(key, actual_from),
            schema.upper_range_fixed_size(key, to),
            schema.matcher(key, key, actual_from, to, forward),
            forward,
            convert,
        )

    def scan_base(
        self, segments: tuple[int, int], lower: bytes, upper: bytes, match: Matcher, convert: Callable[[bytes], K]
    ) -> PeekingIterator[K, bytes]:
        """The entries between two base keys in the segments of a range of time; expired ones too, until their segment goes."""
        return self._scan(self._segments.search(*segments), lower, upper, match, True, convert)

    def _scan_keys(
        self,
        prefixes: list[bytes],
        lower: bytes | None,
        upper: bytes | None,
        match: Matcher,
        forward: bool,
        convert: Callable[[bytes], K],
    ) -> PeekingIterator[K, bytes]:
        if self._index is None:
            return self._scan(prefixes, lower, upper, match, forward, convert)
        index_entries = self._scan(prefixes, lower, upper, match, forward, self._base.from_index_key)
        return PeekingIterator(self._base_entries(index_entries, convert), self._name, lambda _: index_entries.close())

    def _put(self, prefix: bytes, base_key: bytes, value: bytes | None) -> None:
        if self._index is not None:
            self._db.put(prefix + self._base.to_index_key(base_key), None if value is None else _INDEXED)
        self._db.put(prefix + base_key, value)

    def _put_live(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if self._index is not None:
            to_index = self._base.to_index_key
            super()._put_live(
                [(key[:PREFIX_SIZE] + to_index(key[PREFIX_SIZE:]), None if value is None else _INDEXED) for key, value in entries]
            )
        super()._put_live(entries)

    def _base_entries(self, base_keys: Iterator[tuple[bytes, bytes]], convert: Callable[[bytes], K]) -> Iterator[tuple[K, bytes]]:
        for base_key, _ in base_keys:
            value = self.get(base_key)
            if value is not None:
                yield convert(base_key), value
