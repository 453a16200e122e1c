"""Bringing a store up to its changelog: the same steps for a task that starts and for a standby that follows."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence

from penstock.batches.record_batch import RawBatch
from penstock.errors import ConfigError, ProcessorStateError, SerializationError
from penstock.ids import TopicPartition
from penstock.record import RawRecord
from penstock.state.capabilities import innermost, rocksdb_of
from penstock.state.store import RestoreCallback, StateStore
from penstock.state.value_and_timestamp import timestamped_column
from penstock.state.value_formats import PLAIN, TIMESTAMPED, format_of

RecordConverter = Callable[[RawRecord], RawRecord]

_log = logging.getLogger(__name__)


def converter_for_store(store: StateStore) -> RecordConverter | None:
    """Return the function from a changelog record to what the engine of a store holds; None where they are the same."""
    value_format = format_of(store)
    if value_format is PLAIN:
        return None
    join = value_format.join

    def convert(record: RawRecord) -> RawRecord:
        value = record.value
        return record._replace(value=None if value is None else join(value, record.timestamp, record.headers))

    return convert


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
        self._format = format_of(store)
        self._converter = converter_for_store(store)
        self._rocksdb = rocksdb_of(store) if innermost(store).restores_columns else None

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of records are looked at; not where keys, values and times are all that is stored."""
        return self._rocksdb is None or self._format.keeps_headers

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
            convert = self._converter
            self._apply(list(usable) if convert is None else [convert(record) for record in usable])
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
        if self._format is TIMESTAMPED:
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
