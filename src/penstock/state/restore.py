"""Bringing a store up to its changelog: the same steps for a task that starts and for a standby that follows."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence

from penstock.batches.record_batch import RawBatch
from penstock.errors import ConfigError, ProcessorStateError, SerializationError
from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.state.capabilities import has_headers, innermost, is_timestamped, rocksdb_of
from penstock.state.store import RestoreCallback, SessionStore, StateStore
from penstock.state.value_and_timestamp import timestamped_bytes, timestamped_column
from penstock.state.value_timestamp_headers import serialize_headers

RecordConverter = Callable[[RawRecord], RawRecord]

_log = logging.getLogger(__name__)


def identity(record: RawRecord) -> RawRecord:
    """The changelog holds what the store holds."""
    return record


def raw_value_to_timestamped_value(record: RawRecord) -> RawRecord:
    """The changelog holds the value and, as the record's timestamp, the time that the store keeps in front of it."""
    return record._replace(value=timestamped_bytes(record.value, record.timestamp))


def raw_value_to_headers_value(record: RawRecord) -> RawRecord:
    """The changelog holds value, timestamp and headers as a record has them; the store keeps all three in one."""
    value = timestamped_bytes(record.value, record.timestamp)
    return record._replace(value=None if value is None else serialize_headers(record.headers) + value)


def raw_value_to_session_headers_value(record: RawRecord) -> RawRecord:
    """The same for sessions, which keep no timestamp."""
    value = record.value
    return record._replace(value=None if value is None else serialize_headers(record.headers) + value)


def converter_for_store(store: StateStore) -> RecordConverter:
    """How records of a store's changelog become what its engine holds."""
    if has_headers(store):
        return raw_value_to_session_headers_value if isinstance(store, SessionStore) else raw_value_to_headers_value
    return raw_value_to_timestamped_value if is_timestamped(store) else identity


class StoreRestorer:
    """Applies the changelog of one store, batch by batch, and saves its position with each batch.

    `offset` is the offset of the last record in the store, None before the first: what `committed_offset` says of a
    store on disk, and always None at first for one in memory. Reading goes on at `next_offset`.

    A batch: 1. records the store has already, and records without key, are left out, 2. the others are converted to the
    store's format, 3. the store's restore callback takes them, 4. the store commits them with the offset of the last one.
    """

    def __init__(self, store: StateStore, restore_callback: RestoreCallback, partition: TopicPartition) -> None:
        self.store = store
        self.partition = partition
        self.offset = store.committed_offset(partition)
        self.restored_records = 0
        self._restore_callback = restore_callback
        self._converter = converter_for_store(store)
        self._rocksdb = rocksdb_of(store) if innermost(store).restores_columns else None

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of records are looked at; not where keys, values and times are all that is stored."""
        return self._rocksdb is None or self._converter not in (identity, raw_value_to_timestamped_value)

    @property
    def next_offset(self) -> int | None:
        """Where reading goes on; None: at the beginning of the changelog."""
        return None if self.offset is None else self.offset + 1

    def restore(self, records: Sequence[RawRecord] | RawBatch) -> int:
        """Apply one batch, in the order of its offsets; returns how many records went into the store."""
        if isinstance(records, RawBatch):
            if self._restore_columns(records):
                return len(records)
            records = list(records)
        new = self._new_records(records)
        if not new:
            return 0
        usable = self._with_keys(new)
        if usable:
            self._apply([self._converter(record) for record in usable])
        self._save(new[-1].offset)
        self.restored_records += len(usable)
        return len(usable)

    def _apply(self, records: list[RawRecord]) -> None:
        try:
            self._restore_callback(records)
        except (struct.error, SerializationError, ConfigError) as exc:  # whoever may write to a changelog can write anything
            raise ProcessorStateError(
                f"store {self.store.name} cannot be restored from {self.partition}, offsets {records[0].offset} to "
                f"{records[-1].offset}: there is something that is not of its changelog ({exc}). Find out who writes to it; "
                "reset the application to begin anew"
            ) from exc

    def _restore_columns(self, columns: RawBatch) -> bool:
        """Put columns into RocksDB as they are; False, with nothing done, where records have to be looked at one by one."""
        engine = self._rocksdb
        if engine is None or self.reads_headers or not len(columns) or None in columns.keys:
            return False
        if self.offset is not None and columns.offsets[0] <= self.offset:
            return False
        values = columns.values
        if self._converter is raw_value_to_timestamped_value:
            values = timestamped_column(values, columns.timestamps)
        engine.commit_column(columns.keys, values, {self.partition: columns.offsets[-1]})  # type: ignore[arg-type]
        self.offset = columns.offsets[-1]
        self.restored_records += len(columns)
        return True

    def skip_to(self, next_offset: int) -> None:
        """Note that there is nothing more for the store before this offset, for example only markers of transactions."""
        if next_offset > 0 and (self.offset is None or next_offset - 1 > self.offset):
            self._save(next_offset - 1)

    def _new_records(self, records: Sequence[RawRecord]) -> Sequence[RawRecord]:
        if self.offset is None or not records or records[0].offset > self.offset:
            return records
        return [record for record in records if record.offset > self.offset]

    def _with_keys(self, records: Sequence[RawRecord]) -> Sequence[RawRecord]:
        if all(record.key is not None for record in records):
            return records
        for record in records:
            if record.key is None:
                _log.warning(
                    "Read changelog record with null key from changelog %s at offset %d, skipping it for restoration",
                    self.partition,
                    record.offset,
                )
        return [record for record in records if record.key is not None]

    def _save(self, offset: int) -> None:
        self.store.commit({self.partition: offset})
        self.offset = offset
