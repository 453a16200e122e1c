"""The versioned key-value store on RocksDB: the latest value of each key in one place, older versions in segments.

A version lies in the segment of the time it ENDS at, so a segment can be dropped when the last of its versions has ended
longer ago than the history retention. A put goes through three steps until one of them takes it: 1. the latest value, which
moves to a segment when a newer one comes; 2. the segments from the newest down, where the put falls among known versions;
3. what remains: the first version of a key, a tombstone, or one older than all that is known.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.record import RawRecord
from penstock.state.engines.segmented_base import SegmentedEngine
from penstock.state.engines.segments import LATEST_VALUES_PREFIX, PREFIX_SIZE
from penstock.state.engines.store_format import StoreFormat
from penstock.state.engines.versioned_segment_value import SegmentValue, min_timestamp, next_timestamp
from penstock.state.store import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    VersionedKeyValueStore,
    VersionedRecord,
)
from penstock.windows import MAX_TIMESTAMP

log = logging.getLogger(__name__)

_TIMESTAMP: Final = struct.Struct(">q")
_MIN_TIMESTAMP: Final = -(2**63)


class RocksDBVersionedStore(SegmentedEngine, VersionedKeyValueStore[bytes, bytes]):
    """Every version of a value within the history retention, which is also how late a put may come."""

    versioned = True

    def __init__(self, name: str, history_retention: int, segment_interval: int) -> None:
        super().__init__(name, history_retention, segment_interval, StoreFormat("versioned"))

    def scan_latest(self) -> Iterator[tuple[bytes, VersionedRecord[bytes]]]:
        """The latest version of every key, in the order of the keys."""
        self._validate_open()
        with self._db.scan(LATEST_VALUES_PREFIX, None) as entries:
            for key, latest in entries:
                yield key[PREFIX_SIZE:], VersionedRecord(_value_of(latest), _timestamp_of(latest))

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self._validate_open()
        if timestamp < self._observed_stream_time - self._retention_period:
            self._expired.record("Skipping record for expired put.")
            return PUT_RETURN_CODE_NOT_PUT
        self._observed_stream_time = max(self._observed_stream_time, timestamp)
        return self._put(key, value, timestamp)

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        self._validate_open()
        if timestamp < self._observed_stream_time - self._retention_period:
            self._expired.record("Skipping record for expired delete.")
            return None
        existing = self.get(key, timestamp)
        self._observed_stream_time = max(self._observed_stream_time, timestamp)
        self._put(key, None, timestamp)
        return existing

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord[bytes] | None:
        self._validate_open()
        latest = self._db.get(LATEST_VALUES_PREFIX + key)
        if latest is not None:
            timestamp = _timestamp_of(latest)
            if as_of is None or timestamp <= as_of:
                return VersionedRecord(_value_of(latest), timestamp)
        if as_of is None:
            return None
        if as_of < self._observed_stream_time - self._retention_period:
            log.warning("Returning None for an expired get of store %s.", self._name)
            return None
        for prefix in self._segments.search(as_of, MAX_TIMESTAMP, forward=False):
            row = self._db.get(prefix + key)
            if row is None or min_timestamp(row) > as_of:
                continue
            # Older segments end before this one begins: what is not here is nowhere.
            if next_timestamp(row) <= as_of:
                return None
            found = SegmentValue.deserialize(row).find(as_of)
            return None if found.value is None else VersionedRecord(found.value, found.valid_from, found.valid_to)
        return None

    def get_versions(
        self, key: bytes, from_time: int = _MIN_TIMESTAMP, to_time: int = MAX_TIMESTAMP, ascending: bool = False
    ) -> Iterator[VersionedRecord[bytes]]:
        """All versions that were valid at some moment of a range of time, newest first unless `ascending`."""
        self._validate_open()
        found: list[VersionedRecord[bytes]] = []
        latest = self._db.get(LATEST_VALUES_PREFIX + key)
        if latest is not None and _timestamp_of(latest) <= to_time:
            found.append(VersionedRecord(_value_of(latest), _timestamp_of(latest)))
        if to_time >= self._observed_stream_time - self._retention_period:
            for prefix in self._segments.all(forward=False):
                row = self._db.get(prefix + key)
                if row is not None:
                    found += [
                        VersionedRecord(version.value, version.valid_from, version.valid_to)
                        for version in SegmentValue.deserialize(row).find_all(from_time, to_time)
                        if version.value is not None
                    ]
        if ascending:
            found.reverse()
        return iter(found)

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Put records of the changelog back, each with its own timestamp, as if they were put again.

        Kafka Streams drops what the end of the batch will have expired before it begins, and with a tombstone also the
        knowledge that a late version below it was deleted: such a version comes back to life there.
        """
        self._validate_open()
        for record in records:
            if record.key is not None and record.timestamp >= self._observed_stream_time - self._retention_period:
                self._observed_stream_time = max(self._observed_stream_time, record.timestamp)
                self._put(record.key, record.value, record.timestamp)

    def _put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self._segments.cleanup_expired(self._observed_stream_time)
        latest = self._db.get(LATEST_VALUES_PREFIX + key)
        valid_to: int | None = None
        if latest is not None:
            valid_to = _timestamp_of(latest)
            if timestamp >= valid_to:
                self._put_latest(key, value, timestamp, latest)
                return PUT_RETURN_CODE_VALID_TO_UNDEFINED
        done, found = self._put_to_segments(key, value, timestamp, valid_to)
        if not done:
            self._finish_put(key, value, timestamp, found)
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED if found is None else found

    def _put_latest(self, key: bytes, value: bytes | None, timestamp: int, latest: bytes) -> None:
        """Step 1: the version is the newest, the one that was goes to a segment."""
        latest_timestamp = _timestamp_of(latest)
        if timestamp > latest_timestamp:
            self._add_as_latest(self._segment(timestamp) + key, latest_timestamp, timestamp, _value_of(latest))
        self._db.put(LATEST_VALUES_PREFIX + key, None if value is None else _TIMESTAMP.pack(timestamp) + value)

    def _put_to_segments(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int | None) -> tuple[bool, int | None]:
        """Step 2: whether the version fell into a row, and where it ends; None stands for never."""
        for prefix in self._segments.search(timestamp, MAX_TIMESTAMP, forward=False):
            row = self._db.get(prefix + key)
            if row is None:
                continue
            if next_timestamp(row) <= timestamp:
                break
            if min_timestamp(row) <= timestamp:
                return True, self._put_to_row(prefix, row, key, value, timestamp)
            valid_to = min_timestamp(row)
        return False, valid_to

    def _put_to_row(self, prefix: bytes, row: bytes, key: bytes, value: bytes | None, timestamp: int) -> int:
        segment_value = SegmentValue.deserialize(row)
        found = segment_value.find(timestamp)
        if found.valid_from == timestamp:
            segment_value.update_record(timestamp, value, found.index)
        elif self._segments.segment_id(timestamp) == _TIMESTAMP.unpack(prefix)[0]:
            segment_value.insert(timestamp, value, found.index)
        else:
            # The version before now ends in an older segment, and so moves there; the new one takes its place.
            self._add_as_latest(self._segment(timestamp) + key, found.valid_from, timestamp, found.value)
            segment_value.update_record(timestamp, value, found.index)
        self._db.put(prefix + key, segment_value.serialize())
        return found.valid_to

    def _finish_put(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int | None) -> None:
        """Step 3: no row had a place for the version."""
        if valid_to is not None:
            self._put_before(key, value, timestamp, valid_to)
        elif value is not None:
            self._db.put(LATEST_VALUES_PREFIX + key, _TIMESTAMP.pack(timestamp) + value)
        else:
            self._put_tombstone(key, timestamp)

    def _put_before(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int) -> None:
        """Put a version that ends where the oldest known one begins."""
        row_key = self._segment(valid_to) + key
        row = self._db.get(row_key)
        if row is None:
            segment_value = SegmentValue.with_record(value, timestamp, valid_to)
        else:
            segment_value = SegmentValue.deserialize(row)
            if segment_value.next_timestamp <= timestamp:
                segment_value.insert_as_latest(timestamp, valid_to, value)
            else:
                segment_value.insert_as_earliest(timestamp, value)
        self._db.put(row_key, segment_value.serialize())

    def _put_tombstone(self, key: bytes, timestamp: int) -> None:
        """Put a tombstone newer than all that is known: no latest value, which never expire, but in the segment of its time."""
        row_key = self._segment(timestamp) + key
        row = self._db.get(row_key)
        if row is None:
            self._db.put(row_key, SegmentValue.with_record(None, timestamp, timestamp).serialize())
        elif next_timestamp(row) != timestamp:
            segment_value = SegmentValue.deserialize(row)
            segment_value.insert_as_latest(segment_value.next_timestamp, timestamp, None)
            self._db.put(row_key, segment_value.serialize())

    def _add_as_latest(self, row_key: bytes, valid_from: int, valid_to: int, value: bytes | None) -> None:
        row = self._db.get(row_key)
        if row is None:
            segment_value = SegmentValue.with_record(value, valid_from, valid_to)
        else:
            segment_value = SegmentValue.deserialize(row)
            segment_value.insert_as_latest(valid_from, valid_to, value)
        self._db.put(row_key, segment_value.serialize())

    def _segment(self, timestamp: int) -> bytes:
        prefix = self._segments.get_or_create_if_live(self._segments.segment_id(timestamp), self._observed_stream_time)
        # A version that is put, or ends where one is put, is not older than the retention.
        assert prefix is not None
        return prefix


def _timestamp_of(latest: bytes) -> int:
    timestamp: int = _TIMESTAMP.unpack_from(latest)[0]
    return timestamp


def _value_of(latest: bytes) -> bytes:
    return latest[_TIMESTAMP.size :]
