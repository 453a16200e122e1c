"""What the window and session stores on RocksDB share: keys of a schema, kept in segments, hidden once they are too old."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from penstock.record import RawRecord
from penstock.state.engines.segmented_base import SegmentedEngine
from penstock.state.engines.segments import PREFIX_SIZE, next_prefix
from penstock.state.engines.store_format import StoreFormat
from penstock.state.iterators import ByteEntry, PeekingIterator, empty_iterator, is_inverted
from penstock.state.keys.schema import ACCEPT, SKIP, KeySchema, Matcher
from penstock.state.keys.session import SUFFIX_SIZE as SESSION_SUFFIX_SIZE
from penstock.state.keys.window import MAX_SEQNUM, SUFFIX_SIZE, WindowKeySchema, window_suffix
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_formats import PLAIN, ValueFormat

K = TypeVar("K")

# To find a key costs as much as to read on over so many entries.
_SCANNED_FOR_A_SEEK = 3
# Up to so many windows of a key are read at once, without an iterator that could be left open.
_SMALL_SEGMENTS, _SMALL_WINDOWS = 3, 16
# A segment: its prefix (None where it is too old), its first and last time, and the stream time at which another one expires.
_Segment = tuple[bytes | None, int, int, int]
_NO_SEGMENT: _Segment = (None, 0, -1, -1)


class AbstractSegmentedBytesStore(SegmentedEngine):
    """Keys of a schema in segments of time, as `to_store_key` makes them of the keys of the changelog.

    `min_age` is 0 where an entry is still seen that is exactly as old as the retention, 1 where it is not.
    """

    def __init__(
        self,
        name: str,
        retention_period: int,
        segment_interval: int,
        key_schema: KeySchema,
        store_format: StoreFormat,
        is_window: bool,
        min_age: int = 1,
    ) -> None:
        super().__init__(name, retention_period, segment_interval, store_format)
        self._schema = key_schema
        self._is_window = is_window
        self._min_age = min_age
        self._live = _NO_SEGMENT

    def to_store_key(self, changelog_key: bytes) -> bytes:
        """The key of the store that stands for a key of the changelog."""
        return changelog_key

    def _time_of(self, key: bytes) -> int:
        return self._schema.segment_timestamp(key)

    def oldest(self, stream_time: int) -> int:
        """The lowest time that can be found when stream time has come this far."""
        return stream_time - self._retention_period + self._min_age

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key of the schema; None deletes, an expired key is counted and dropped."""
        self.put_at(self._schema.segment_timestamp(key), key, value)

    def put_at(self, timestamp: int, key: bytes, value: bytes | None) -> None:
        """The same where the time of the key is known."""
        if timestamp > self._observed_stream_time:
            self._observed_stream_time = timestamp
        # Most puts go to the segment of the one before.
        prefix, first, last, until = self._live
        if not first <= timestamp <= last or self._observed_stream_time >= until:
            prefix = self._live_segment(timestamp)
        if prefix is None:
            self._expired.record("Skipping record for expired segment.")
        else:
            self._put(prefix, key, value)

    def _live_segment(self, timestamp: int) -> bytes | None:
        """The prefix of the segment of a time, which is kept with its bounds and the stream time at which others expire."""
        segments, observed = self._segments, self._observed_stream_time
        segment_id, interval = segments.segment_id(timestamp), segments.segment_interval
        prefix = segments.get_or_create_if_live(segment_id, observed)
        until = ((observed - self._retention_period) // interval + 1) * interval + self._retention_period
        self._live = prefix, max(0, segment_id * interval), (segment_id + 1) * interval - 1, until
        return prefix

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self._live = _NO_SEGMENT
        super().init(context, root)

    def remove(self, key: bytes) -> None:
        """Delete a key of the schema."""
        timestamp = self._schema.segment_timestamp(key)
        if timestamp > self._observed_stream_time:
            self._observed_stream_time = timestamp
        prefix = self._segments.for_timestamp(timestamp)
        if prefix is not None:
            self._put(prefix, key, None)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key of the schema; None where it has expired."""
        timestamp = self._schema.segment_timestamp(key)
        if timestamp < self._observed_stream_time - self._retention_period + self._min_age:
            return None
        prefix = self._segments.for_timestamp(timestamp)
        if prefix is None:
            self._validate_open()
            return None
        return self._db.get(prefix + key)

    def _put(self, prefix: bytes, key: bytes, value: bytes | None) -> None:
        self._db.put(prefix + key, value)

    @abstractmethod
    def fetch(self, key: bytes, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        """The entries of one record key in a range of time, with what `convert` makes of their keys."""

    def fetch_ranges(self, ranges: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[ByteEntry]]:
        """Key of the schema and value of the entries of many record keys, each in a range of time of its own.

        They are those of `fetch`; record keys that have none are left out.
        """
        found: dict[bytes, list[ByteEntry]] = {}
        for key, (from_, to) in ranges.items():
            with self.fetch(key, from_, to, True, bytes) as entries:
                of_key = list(entries)
            if of_key:
                found[key] = of_key
        return found

    def fetch_key_range(
        self, key_from: bytes | None, key_to: bytes | None, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]
    ) -> PeekingIterator[K, bytes]:
        """The entries of the record keys in a range, in a range of time."""
        if is_inverted(key_from, key_to):
            return empty_iterator(self._name)
        actual_from = self._actual_from(from_)
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        schema = self._scanned_schema
        return self._scan_keys(
            self._segments.search(*schema.segments_to_search(actual_from, to), forward),
            schema.lower_range(key_from, actual_from),
            schema.upper_range(key_to, to),
            schema.matcher(key_from, key_to, actual_from, to, forward),
            forward,
            convert,
        )

    def fetch_all(self, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        """All entries in a range of time."""
        actual_from = self._actual_from(from_)
        if self._is_past(actual_from, to):
            return empty_iterator(self._name)
        schema = self._schema
        return self._scan(
            self._segments.search(actual_from, to, forward),
            schema.lower_range(None, actual_from),
            schema.upper_range(None, to),
            schema.matcher(None, None, actual_from, to, forward),
            forward,
            convert,
        )

    @property
    def _scanned_schema(self) -> KeySchema:
        """The layout in which entries are looked for by key."""
        return self._schema

    def _scan_keys(
        self,
        prefixes: list[bytes],
        lower: bytes | None,
        upper: bytes | None,
        match: Matcher,
        forward: bool,
        convert: Callable[[bytes], K],
    ) -> PeekingIterator[K, bytes]:
        """Scan keys of the layout in which entries are looked for by key."""
        return self._scan(prefixes, lower, upper, match, forward, convert)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back; stream time moves to the latest of them first."""
        self._validate_open()
        to_store_key, segment_timestamp = self.to_store_key, self._schema.segment_timestamp
        keyed = [(to_store_key(record.key), record) for record in records if record.key is not None]
        if not keyed:
            return
        restored = [(key, segment_timestamp(key), record.value) for key, record in keyed]
        self._observed_stream_time = max(self._observed_stream_time, max(timestamp for _, timestamp, _ in restored))
        segments, put = self._segments, self._put
        for key, timestamp, value in restored:
            prefix = segments.get_or_create_if_live(segments.segment_id(timestamp), self._observed_stream_time)
            if prefix is not None:
                put(prefix, key, value)
        last = keyed[-1][1].key
        if self._is_window and last is not None:
            self.seqnum = WindowKeySchema.extract_store_sequence(last)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None, int]]) -> None:
        """Set many keys, each with its time, in their order; None deletes, expired ones are counted and dropped."""
        observed = self._observed_stream_time
        live: list[tuple[bytes, bytes | None]] = []
        prefix, first, last, until = self._live
        for key, value, timestamp in entries:
            if timestamp > observed:
                observed = self._observed_stream_time = timestamp
            if not first <= timestamp <= last or observed >= until:
                self._live_segment(timestamp)
                prefix, first, last, until = self._live
            if prefix is None:
                self._expired.record("Skipping record for expired segment.")
            else:
                live.append((prefix + key, value))
        self._put_live(live)

    def _put_live(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        self._db.put_all(entries)

    def get_all(self, entries: Iterable[tuple[bytes, int]], oldest: int) -> list[bytes | None]:
        """The values of many keys, each with its time; None where there is none, or where its time is before the oldest."""
        self._validate_open()
        prefix_of = self._segments.for_timestamp
        keys: list[bytes | None] = []
        for key, timestamp in entries:
            prefix = None if timestamp < oldest else prefix_of(timestamp)
            keys.append(None if prefix is None else prefix + key)
        there = [key for key in keys if key is not None]
        if len(there) == len(keys):
            return self._db.multi_get(there)
        found = iter(self._db.multi_get(there) if there else ())
        return [None if key is None else next(found) for key in keys]

    def _actual_from(self, from_: int) -> int:
        # A record is gone exactly `retention` ms after its own time, even while its segment is still there.
        return max(from_, self.oldest(self._observed_stream_time))

    def _is_past(self, actual_from: int, to: int) -> bool:
        # Of sessions `to` is the latest start, which may well lie before the earliest end.
        return self._is_window and to < actual_from

    def _scan(
        self,
        prefixes: list[bytes],
        lower: bytes | None,
        upper: bytes | None,
        match: Matcher,
        forward: bool,
        convert: Callable[[bytes], K],
    ) -> PeekingIterator[K, bytes]:
        self._validate_open()
        return PeekingIterator(self._matching(prefixes, lower, upper, match, forward, convert), self._name)

    def _matching(
        self,
        prefixes: list[bytes],
        lower: bytes | None,
        upper: bytes | None,
        match: Matcher,
        forward: bool,
        convert: Callable[[bytes], K],
    ) -> Iterator[tuple[K, bytes]]:
        scan = self._db.scan
        for prefix in prefixes:
            key_from = prefix if lower is None else prefix + lower
            key_to = next_prefix(prefix) if upper is None else prefix + upper
            entries = scan(key_from, key_to, to_inclusive=upper is not None, forward=forward)
            try:
                for key, value in entries:
                    key = key[PREFIX_SIZE:]
                    verdict = match(key)
                    if verdict > 0:
                        yield convert(key), value
                    elif verdict < 0:
                        break
            finally:
                entries.close()


class SegmentedBytesStore(AbstractSegmentedBytesStore):
    """Keys of one schema, which are also the keys of the changelog."""

    def __init__(
        self,
        name: str,
        retention_period: int,
        segment_interval: int,
        key_schema: KeySchema,
        value_format: ValueFormat = PLAIN,
        retain_duplicates: bool = False,
    ) -> None:
        is_window = isinstance(key_schema, WindowKeySchema)
        store_format = StoreFormat("window" if is_window else "session", value_format, duplicates=retain_duplicates)
        super().__init__(name, retention_period, segment_interval, key_schema, store_format, is_window)
        self._found_from: int | None = None

    def find_expired(self) -> None:
        """From now on find entries of single keys also when they have expired since, until their segment goes."""
        self._found_from = self.oldest(self._observed_stream_time)

    def is_live(self, timestamp: int, stream_time: int) -> bool:
        """Whether a put at a time is kept when stream time has come this far."""
        return self._segments.is_live(self._segments.segment_id(timestamp), stream_time)

    def fetch(self, key: bytes, from_: int, to: int, forward: bool, convert: Callable[[bytes], K]) -> PeekingIterator[K, bytes]:
        actual_from = self._actual_from_of_key(from_)
        schema = self._schema
        if self._is_window:
            if to < max(0, actual_from):
                return empty_iterator(self._name)
            # Between the bounds all begin with the key, and those of its length have nothing but a time of the range behind it.
            match = _of_length(len(key) + SUFFIX_SIZE)
        else:
            match = schema.matcher(key, key, actual_from, to, forward)
        return self._scan(
            self._segments.search(*schema.segments_to_search(actual_from, to), forward),
            schema.lower_range_fixed_size(key, actual_from),
            schema.upper_range_fixed_size(key, to),
            match,
            forward,
            convert,
        )

    def fetch_small_windows(self, key: bytes, time_from: int, time_to: int) -> list[tuple[int, bytes]] | None:
        """`(window_start, value)` of one record key in a range of time that lies in few segments; None where there are many."""
        if not self._is_window or not self._open:
            self._validate_open()
            return None
        observed, actual_from = self._observed_stream_time, self._found_from
        if actual_from is None:
            actual_from = observed - self._retention_period + self._min_age
        if actual_from < time_from:
            actual_from = time_from
        if actual_from < 0:
            actual_from = 0
        if time_to < actual_from:
            return []
        first_ending, last_ending = window_suffix(actual_from, 0), window_suffix(time_to, MAX_SEQNUM)
        live, first, last, until = self._live
        # Most reads go to the segment of the last put, and most find nothing.
        if live is not None and first <= actual_from and time_to <= last and observed < until:
            found = self._db.fetch_small(live + key, first_ending, last_ending, _SMALL_WINDOWS)
        else:
            found = self._fetch_small_of(self._segments.search(actual_from, time_to), key, first_ending, last_ending)
        if found is None:
            return None
        return [(WindowKeySchema.extract_store_timestamp(ending), value) for ending, value in found]

    def _fetch_small_of(
        self, prefixes: list[bytes], key: bytes, first_ending: bytes, last_ending: bytes
    ) -> list[ByteEntry] | None:
        if len(prefixes) > _SMALL_SEGMENTS:
            return None
        found: list[ByteEntry] = []
        for prefix in prefixes:
            entries = self._db.fetch_small(prefix + key, first_ending, last_ending, _SMALL_WINDOWS)
            if entries is None:
                return None
            found += entries
        return found

    def fetch_many(self, keys: Iterable[bytes], from_: int, to: int) -> dict[bytes, list[tuple[int, bytes]]]:
        """`(window_start, value)` of many record keys in a range of time, in order; keys that have none are left out."""
        self._validate_open()
        actual_from = max(0, self._actual_from(from_))
        found: dict[bytes, list[tuple[int, bytes]]] = {}
        if to < actual_from:
            return found
        first, last = (
            WindowKeySchema.to_store_key_binary(b"", actual_from, 0),
            WindowKeySchema.to_store_key_binary(b"", to, MAX_SEQNUM),
        )
        prefixes = self._segments.search(actual_from, to)
        wanted = set(keys)
        if self._db.approximate_num_entries() < _SCANNED_FOR_A_SEEK * len(wanted):
            return self._scan_for(wanted, prefixes, actual_from, to)
        ordered = sorted(wanted)
        for prefix in prefixes:
            bounds = [(prefix + key + first, prefix + key + last) for key in ordered]
            for key, entries in zip(ordered, self._db.scan_many(bounds)):
                size = len(prefix) + len(key) + SUFFIX_SIZE
                # Longer keys that begin with this one and look like it with a time behind it are not meant.
                of_key = [(WindowKeySchema.extract_store_timestamp(k), value) for k, value in entries if len(k) == size]
                if of_key:
                    found.setdefault(key, []).extend(of_key)
        return found

    def fetch_ranges(self, ranges: Mapping[bytes, tuple[int, int]]) -> dict[bytes, list[ByteEntry]]:
        """See `AbstractSegmentedBytesStore.fetch_ranges`; found in one go."""
        self._validate_open()
        if not ranges or not self._segments.ids:
            return {}
        schema = self._schema
        earliest = self._actual_from_of_key(min(from_ for from_, _ in ranges.values()))
        prefixes = self._segments.search(*schema.segments_to_search(earliest, max(to for _, to in ranges.values())))
        if self._db.approximate_num_entries() < _SCANNED_FOR_A_SEEK * len(ranges):
            return self._scan_ranges(ranges, prefixes)
        found: dict[bytes, list[ByteEntry]] = {}
        ordered = sorted(ranges)
        for prefix in prefixes:
            bounds = [
                (
                    prefix + schema.lower_range_fixed_size(key, self._actual_from_of_key(ranges[key][0])),
                    prefix + schema.upper_range_fixed_size(key, ranges[key][1]),
                )
                for key in ordered
            ]
            for key, entries in zip(ordered, self._db.scan_many(bounds)):
                if entries:
                    self._add_matching(found, key, ranges[key], entries)
        return found

    def _scan_ranges(self, ranges: Mapping[bytes, tuple[int, int]], prefixes: list[bytes]) -> dict[bytes, list[ByteEntry]]:
        """What `fetch_ranges` finds, by reading whole segments."""
        suffix = -SUFFIX_SIZE if self._is_window else -SESSION_SUFFIX_SIZE
        found: dict[bytes, list[ByteEntry]] = {}
        for prefix in prefixes:
            of_key: dict[bytes, list[ByteEntry]] = {}
            with self._db.scan(prefix, next_prefix(prefix), to_inclusive=False) as entries:
                for entry in entries:
                    key = entry[0][PREFIX_SIZE:suffix]
                    if key in ranges:
                        of_key.setdefault(key, []).append(entry)
            for key, some in of_key.items():
                self._add_matching(found, key, ranges[key], some)
        return found

    def _add_matching(
        self, found: dict[bytes, list[ByteEntry]], key: bytes, bounds: tuple[int, int], entries: Sequence[ByteEntry]
    ) -> None:
        match = self._schema.matcher(key, key, self._actual_from_of_key(bounds[0]), bounds[1], True)
        of_key = [(binary[PREFIX_SIZE:], value) for binary, value in entries if match(binary[PREFIX_SIZE:]) == ACCEPT]
        if of_key:
            found.setdefault(key, []).extend(of_key)

    def _scan_for(
        self, keys: Container[bytes], prefixes: list[bytes], from_: int, to: int
    ) -> dict[bytes, list[tuple[int, bytes]]]:
        """What `fetch_many` finds, by reading whole segments."""
        found: dict[bytes, list[tuple[int, bytes]]] = {}
        timestamp_of = WindowKeySchema.extract_store_timestamp
        for prefix in prefixes:
            with self._db.scan(prefix, next_prefix(prefix), to_inclusive=False) as entries:
                for binary, value in entries:
                    key = binary[PREFIX_SIZE:-SUFFIX_SIZE]
                    if key in keys and from_ <= (timestamp := timestamp_of(binary)) <= to:
                        found.setdefault(key, []).append((timestamp, value))
        return found

    def _actual_from_of_key(self, from_: int) -> int:
        return self._actual_from(from_) if self._found_from is None else max(from_, self._found_from)


def _of_length(length: int) -> Matcher:
    def match(binary: bytes) -> int:
        return ACCEPT if len(binary) == length else SKIP

    return match
