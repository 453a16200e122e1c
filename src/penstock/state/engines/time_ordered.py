"""What the stores that results are emitted from at window close share: values in the order of time, and an index by key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.record import RawRecord
from penstock.state.engines.segmented import AbstractSegmentedBytesStore
from penstock.state.engines.segments import PREFIX_SIZE
from penstock.state.iterators import PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.schema import KeySchema, Matcher
from penstock.windows import MAX_TIMESTAMP

K = TypeVar("K")

_INDEXED = b""


class TimeOrderedSegmentedBytesStore(AbstractSegmentedBytesStore):
    """A base layout, and with `with_index` a second key for each entry in the index layout.

    `min_age` is 0 for windows and 1 for sessions: a window is still seen when it is exactly as old as the retention, since with a
    grace period of that length it is then that its result is due.
    """

    def __init__(
        self,
        name: str,
        retention_period: int,
        segment_interval: int,
        base_schema: KeySchema,
        index_schema: KeySchema | None,
        min_age: int,
        timestamped: bool = False,
    ) -> None:
        store_format = "time-ordered" if index_schema is None else "time-ordered-indexed"
        kind = "window" if min_age == 0 else "session"
        super().__init__(name, retention_period, segment_interval, f"{store_format}-{kind}", timestamped)
        self._base = base_schema
        self._index = index_schema
        self._min_age = min_age

    @property
    def has_index(self) -> bool:
        """Whether entries of one key can be found without reading all others."""
        return self._index is not None

    @abstractmethod
    def to_index_key(self, base_key: bytes) -> bytes:
        """The index key that stands for a base key."""

    @abstractmethod
    def to_base_key(self, index_key: bytes) -> bytes:
        """The base key that an index key stands for."""

    @abstractmethod
    def changelog_to_base_key(self, changelog_key: bytes) -> bytes:
        """The base key of a key of the changelog."""

    def put(self, base_key: bytes, value: bytes | None) -> None:
        """Set the value of a base key; None deletes, an expired key is counted and dropped."""
        timestamp = self._base.segment_timestamp(base_key)
        if timestamp > self._observed_stream_time:
            self._observed_stream_time = timestamp
        segments = self._segments
        prefix = segments.get_or_create_if_live(segments.segment_id(timestamp), self._observed_stream_time)
        if prefix is None:
            self._expired.record("Skipping record for expired segment.")
        else:
            self._put(prefix, base_key, value)

    def remove(self, base_key: bytes) -> None:
        """Delete a base key."""
        timestamp = self._base.segment_timestamp(base_key)
        if timestamp > self._observed_stream_time:
            self._observed_stream_time = timestamp
        prefix = self._segments.for_timestamp(timestamp)
        if prefix is not None:
            self._put(prefix, base_key, None)

    def get(self, base_key: bytes) -> bytes | None:
        """The value of a base key; None where it has expired."""
        timestamp = self._base.segment_timestamp(base_key)
        if timestamp < self.oldest():
            return None
        prefix = self._segments.for_timestamp(timestamp)
        if prefix is None:
            self._validate_open()
            return None
        return self._db.get(prefix + base_key)

    def fetch(self, key: bytes, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        """The entries of one record key in a range of time, with what `convert` makes of their base keys."""
        actual_from = max(from_, self.oldest())
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        schema = self._index or self._base
        return self._scan_keys(
            self._segments.search(*schema.segments_to_search(actual_from, to), forward),
            schema.lower_range_fixed_size(key, actual_from),
            schema.upper_range_fixed_size(key, to),
            schema.matcher(key, key, actual_from, to, forward),
            forward,
            convert,
        )

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]
    ) -> PeekingIterator[K, bytes]:
        """The entries of the record keys in a range, in a range of time."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        actual_from = max(from_, self.oldest())
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        schema = self._index or self._base
        return self._scan_keys(
            self._segments.search(*schema.segments_to_search(actual_from, to), forward),
            schema.lower_range(key_from, actual_from),
            schema.upper_range(key_to, to),
            schema.matcher(key_from, key_to, actual_from, to, forward),
            forward,
            convert,
        )

    def fetch_all(self, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        """All entries in a range of time, in the order of time."""
        actual_from = max(from_, self.oldest())
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        return self._scan_base(self._segments.search(actual_from, to, forward), actual_from, to, forward, convert)

    def all(self, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        """All entries that have not expired, in the order of time."""
        return self._scan_base(self._segments.all(forward), max(0, self.oldest()), MAX_TIMESTAMP, forward, convert)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back; stream time moves to the latest of them first."""
        self._validate_open()
        restored: list[tuple[bytes, int, bytes | None]] = []
        for record in records:
            if record.key is not None:
                base_key = self.changelog_to_base_key(record.key)
                restored.append((base_key, self._base.segment_timestamp(base_key), record.value))
        if not restored:
            return
        self._observed_stream_time = max(self._observed_stream_time, max(timestamp for _, timestamp, _ in restored))
        segments = self._segments
        for base_key, timestamp, value in restored:
            prefix = segments.get_or_create_if_live(segments.segment_id(timestamp), self._observed_stream_time)
            if prefix is not None:
                self._put(prefix, base_key, value)

    def oldest(self) -> int:
        """The lowest time that can be found now."""
        return self._observed_stream_time - self._retention_period + self._min_age

    def _is_past(self, actual_from: int, to: int) -> bool:
        # Of sessions `to` is the latest start, which may well lie before the earliest end.
        return self._min_age == 0 and to < actual_from

    def _scan_base(
        self, prefixes: list[bytes], from_: int, to: int, forward: bool, convert: Callable[[bytes], K]
    ) -> PeekingIterator[K, bytes]:
        base = self._base
        lower, upper = base.lower_range(None, from_), base.upper_range(None, to)
        return self._scan(prefixes, lower, upper, base.matcher(None, None, from_, to, forward), forward, convert)

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
        index_entries = self._scan(prefixes, lower, upper, match, forward, self.to_base_key)
        return PeekingIterator(self._base_entries(index_entries, convert), self._name, lambda _: index_entries.close())

    def _put(self, prefix: bytes, base_key: bytes, value: bytes | None) -> None:
        if self._index is not None:
            self._db.put(prefix + self.to_index_key(base_key), None if value is None else _INDEXED)
        self._db.put(prefix + base_key, value)

    def _put_live(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        if self._index is not None:
            to_index = self.to_index_key
            super()._put_live(
                [(key[:PREFIX_SIZE] + to_index(key[PREFIX_SIZE:]), None if value is None else _INDEXED) for key, value in entries]
            )
        super()._put_live(entries)

    def _base_entries(self, base_keys: Iterator[tuple[bytes, bytes]], convert: Callable[[bytes], K]) -> Iterator[tuple[K, bytes]]:
        for base_key, _ in base_keys:
            value = self.get(base_key)
            if value is not None:
                yield convert(base_key), value
