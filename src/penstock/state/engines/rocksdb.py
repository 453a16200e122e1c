"""The RocksDB key-value engine: committed entries on disk, uncommitted ones in an overlay.

Puts go to the overlay; reads and iterators see it merged over RocksDB. `commit` writes the overlay and the changelog
position in one batch, so that what is on disk is always the state at some position, and `close` forgets the rest.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from threading import get_ident
from typing import Any
from weakref import WeakSet

from rocksdict import Cache, ColumnFamily, Options, Rdict, WriteBatch, WriteOptions

from penstock.errors import ProcessorStateError
from penstock.ids import TopicPartition
from penstock.metrics.registry import RecordingLevel
from penstock.record import RawRecord
from penstock.state.engines.format_change import META_COLUMN_FAMILY
from penstock.state.engines.key_value_bytes import KeyValueBytesStore
from penstock.state.engines.overlay import Overlay
from penstock.state.engines.rocksdb_files import advice, open_folder, open_secondary
from penstock.state.engines.store_format import StoreFormat
from penstock.state.iterators import ByteEntry, ByteIterator, PeekingIterator, overlay
from penstock.state.rocksdb_options import RocksDBConfigSetter, config_setter, default_options, default_table_options
from penstock.state.store import StateStore, StateStoreContext
from penstock.state.value_formats import PLAIN, ValueFormat

DB_FOLDER = "rocksdb"

_OFFSET_PREFIX = b"offset:"
_LOG_PREFIX = b"log:"
_POSITION_KEY = b"position"
_ABSENT: Any = object()
# What the last commits wrote is kept for reads up to so many bytes, each entry with what its objects take in memory.
_RECENT_BYTES, _ENTRY_BYTES = 4 << 20, 200
_log = logging.getLogger(__name__)


class RocksDBStore(KeyValueBytesStore):
    """Keys and values as bytes in one RocksDB at `<task folder>/<parent_dir>/<name>`."""

    restores_columns = True

    def __init__(
        self,
        name: str,
        parent_dir: str = DB_FOLDER,
        value_format: ValueFormat = PLAIN,
        store_format: StoreFormat | None = None,
    ) -> None:
        super().__init__(name)
        self.store_format = store_format or StoreFormat("key-value", value_format)
        self.value_format = self.store_format.values
        self._parent_dir = parent_dir
        self._overlay = Overlay()
        self._recent: dict[bytes, bytes | None] = {}
        """Entries of the last commits, as they are in RocksDB: a batch mostly reads what one of the last batches wrote."""
        self._recent_bytes = 0
        self._offsets: dict[TopicPartition, int] = {}
        self._logs: dict[TopicPartition, int] = {}
        self._open_iterators: WeakSet[ByteIterator] = WeakSet()
        self._write_options = WriteOptions()
        self._folder: Path | None = None
        self._options: Options | None = None
        self._setter: RocksDBConfigSetter | None = None
        self._db: Rdict | None = None
        self._meta: ColumnFamily | None = None
        self.position: bytes | None = None
        """What of the input the store reflects, as text; written with the next commit."""
        self._saved_position: bytes | None = None
        self._cursor: tuple[int, Any] | None = None
        """An iterator of what is committed, kept until that changes."""
        self._secondary: tuple[Path, Cache] | None = None

    @property
    def rocksdb(self) -> RocksDBStore:
        return self

    @property
    def persistent(self) -> bool:
        """True: what was committed is on disk."""
        return True

    @property
    def folder(self) -> Path:
        """Where the RocksDB is, also for readers of committed state; known once the store was opened."""
        if self._folder is None:
            raise ProcessorStateError(f"store {self._name} has not been opened yet: its folder is not known")
        return self._folder

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        self.open_store(context)
        context.register(root, self.restore_batch)

    def open_store(self, context: StateStoreContext, place: Callable[[bytes], bytes] | None = None) -> None:
        """Open or create the RocksDB of a task's store.

        State of another format is converted or, if the store has a changelog, deleted and restored; otherwise it is refused.
        `place` returns the key that an entry of a segmented store has to have.
        """
        has_changelog = context.changelog_for(self._name) is not None
        self.open_db(context.app_configs, context.state_dir, has_changelog, place)

    def open_db(
        self,
        configs: Mapping[str, Any],
        state_dir: Path,
        has_changelog: bool = False,
        place: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Open or create the RocksDB under a folder."""
        folder = Path(state_dir) / self._parent_dir / self._name
        options = default_options()
        setter = config_setter(configs)
        if setter is not None:
            setter.set_config(self._name, options, configs)
        if self._secondary is None:
            if RecordingLevel.of(configs) >= RecordingLevel.DEBUG:
                options.enable_statistics()
            db = open_folder(folder, self._name, options, self.store_format, has_changelog, place)
        else:
            log_folder, block_cache = self._secondary
            options.set_block_based_table_factory(default_table_options(block_cache))
            db = open_secondary(folder, self._name, options, self.store_format, log_folder)
        self._folder, self._options, self._setter, self._db = folder, options, setter, db
        self._meta = db.get_column_family_handle(META_COLUMN_FAMILY)
        self._read_meta()
        self._open = True

    def read_as_secondary(self, log_folder: Path, block_cache: Cache) -> None:
        """Open for reading only, beside the process that writes; to be called before `init`."""
        self._secondary = log_folder, block_cache

    def catch_up(self) -> None:
        """See what the writer has committed meanwhile; for a store that was opened with `read_as_secondary`."""
        self._cursor = None
        try:
            self._database().try_catch_up_with_primary()
            self._read_meta()
        except Exception as exc:
            raise self._failed("catch up with", exc) from exc

    def _read_meta(self) -> None:
        meta = self._database().get_column_family(META_COLUMN_FAMILY)
        self._offsets, self._logs = _read_numbers(meta, _OFFSET_PREFIX), _read_numbers(meta, _LOG_PREFIX)
        self.position = self._saved_position = meta.get(_POSITION_KEY)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._cursor = None
        if self._open_iterators:
            _log.warning("Closing %d open iterators for store %s", len(self._open_iterators), self._name)
            for iterator in list(self._open_iterators):
                iterator.close()
        self._overlay.clear()
        self._forget_recent()
        db, setter, options = self._db, self._setter, self._options
        self._db = self._meta = self._setter = self._options = None
        if db is not None:
            db.close()
        if setter is not None and options is not None:
            setter.close(self._name, options)

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Write the overlay and the changelog position in one batch."""
        self._validate_open()
        if not self._overlay and not changelog_offsets and self.position == self._saved_position:
            return
        batch = WriteBatch(raw_mode=True)
        for key_from, key_to in self._overlay.deleted_ranges:
            batch.delete_range(key_from, key_to)
        self._write_column(batch, self._overlay.entries.keys(), self._overlay.entries.values(), changelog_offsets)
        self._keep_recent()
        self._overlay.clear()

    def commit_column(
        self, keys: Collection[bytes], values: Collection[bytes | None], changelog_offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Set many keys (None deletes) and the changelog position in one batch, past the overlay; for a store being restored."""
        self.commit({})
        self._forget_recent()
        self._write_column(WriteBatch(raw_mode=True), keys, values, changelog_offsets)

    def _keep_recent(self) -> None:
        entries = self._overlay.entries
        size = sum(map(len, entries)) + sum(map(len, filter(None, entries.values()))) + _ENTRY_BYTES * len(entries)
        if self._overlay.deleted_ranges or self._recent_bytes + size > _RECENT_BYTES:
            self._forget_recent()
        if size <= _RECENT_BYTES:
            self._recent.update(entries)
            self._recent_bytes += size

    def _forget_recent(self) -> None:
        self._recent, self._recent_bytes = {}, 0

    def _write_column(
        self,
        batch: WriteBatch,
        keys: Collection[bytes],
        values: Collection[bytes | None],
        changelog_offsets: Mapping[TopicPartition, int],
    ) -> None:
        self._cursor = None
        put, delete = batch.put, batch.delete
        if None in values:
            for key, value in zip(keys, values):
                if value is None:
                    delete(key)
                else:
                    put(key, value)
        else:
            deque(map(put, keys, values), maxlen=0)
        for partition, offset in changelog_offsets.items():
            put(_partition_key(_OFFSET_PREFIX, partition), str(offset).encode(), self._meta)
        if self.position is not None and self.position != self._saved_position:
            put(_POSITION_KEY, self.position, self._meta)
        try:
            self._database().write(batch, self._write_options)
        except Exception as exc:
            raise self._failed("write a commit to", exc) from exc
        self._offsets.update(changelog_offsets)
        self._saved_position = self.position

    def property_int(self, name: str) -> int | None:
        """A number that RocksDB tells of itself, such as `rocksdb.estimate-num-keys`; None while the store is closed."""
        return None if self._db is None else self._db.property_int_value(name)

    def statistics(self) -> str | None:
        """All that RocksDB counts, as text; None while the store is closed, or where nothing is counted."""
        options = self._options
        return None if options is None or self._db is None else options.get_statistics()

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def log_of(self, partition: TopicPartition) -> int:
        """The id of the log that a changelog position was noted for; 0 where it is not known."""
        return self._logs.get(partition, 0)

    def note_log(self, partition: TopicPartition, log: int) -> None:
        """Keep the id of the log that positions of a partition are noted for from now on."""
        if log and self._logs.get(partition) != log:
            batch = WriteBatch(raw_mode=True)
            batch.put(_partition_key(_LOG_PREFIX, partition), str(log).encode(), self._meta)
            try:
                self._database().write(batch, self._write_options)
            except Exception as exc:
                raise self._failed("write the id of a changelog to", exc) from exc
            self._logs[partition] = log

    def restore_batch(self, records: Sequence[RawRecord]) -> None:
        """Take records of the changelog; the next commit writes them with their position."""
        self._validate_open()
        put = self._overlay.put
        for record in records:
            if record.key is not None:
                put(record.key, record.value)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._overlay.entries.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        self._validate_open()
        if self._overlay.deleted_ranges and self._overlay.hides(key):
            return None
        value = self._recent.get(key, _ABSENT)
        if value is not _ABSENT:
            return value
        try:
            value = self._db.get(key)  # type: ignore[union-attr]
        except Exception as exc:
            raise self._failed("read a key from", exc) from exc
        return value

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys, in one call to RocksDB for all that are not in memory."""
        self._validate_open()
        uncommitted, deleted_ranges = self._overlay.entries, self._overlay.deleted_ranges
        recent = {} if deleted_ranges else self._recent
        if uncommitted and recent:
            above = map(uncommitted.get, keys, repeat(_ABSENT))
            values = [recent.get(key, _ABSENT) if value is _ABSENT else value for key, value in zip(keys, above)]
        else:
            values = list(map((uncommitted or recent).get, keys, repeat(_ABSENT)))
        rows = [row for row, value in enumerate(values) if value is _ABSENT]
        if not rows:
            return values
        try:
            found: Any = self._database().get([keys[row] for row in rows])
        except Exception as exc:
            raise self._failed("read keys from", exc) from exc
        for row, value in zip(rows, found, strict=True):
            values[row] = value
        if deleted_ranges:
            for row in rows:
                if self._overlay.hides(keys[row]):
                    values[row] = None
        return values

    def put(self, key: bytes, value: bytes | None) -> None:
        if not self._open:
            self._validate_open()
        self._overlay.put(key, value)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._validate_open()
        self._overlay.put_all(entries)

    def delete_range(self, key_from: bytes, key_to: bytes) -> None:
        """Delete all keys from one (included) to another (not included) without reading them."""
        self._validate_open()
        self._overlay.delete_range(key_from, key_to)

    def scan(
        self, key_from: bytes | None, key_to: bytes | None, *, to_inclusive: bool = True, forward: bool = True
    ) -> ByteIterator:
        """Entries of a range in order, as they are now."""
        self._validate_open()
        entries: Iterable[ByteEntry] = self._committed(key_from, key_to, to_inclusive, forward)
        if self._overlay:
            entries = self._overlay.visible(entries)
            uncommitted = self._overlay.scan(key_from, key_to, to_inclusive)
            if uncommitted:
                if not forward:
                    uncommitted.reverse()
                entries = overlay(uncommitted, entries, forward)
        iterator = PeekingIterator(entries, self._name, self._open_iterators.discard)
        self._open_iterators.add(iterator)
        return iterator

    def fetch_small(self, stem: bytes, first: bytes, last: bytes, most: int) -> list[ByteEntry] | None:
        """Ending and value of the keys that are `stem` and an ending between two others of the same length, in order.

        None where there are more than so many in the range, or another thread asks.
        What is committed is read with one iterator until the next commit: to seek is a third of what it takes to open one. An
        iterator has one place, so it serves the thread that has opened it; readers beside the task have their own.
        """
        thread, cursor = self._cursor or self._open_cursor()
        if thread != get_ident():
            return None
        found: list[ByteEntry] = []
        cursor.seek(stem + first)
        # Nearly always the next entry is another key's; at the end of all, and of the store, there is none.
        if (key := cursor.key()) is not None and key <= (key_to := stem + last):
            size, ends, hides = len(key_to), len(stem), self._overlay.hides if self._overlay.deleted_ranges else None
            passed = 0
            while key <= key_to:
                if passed == most:
                    return None
                passed += 1
                if len(key) == size and (hides is None or not hides(key)):
                    found.append((key[ends:], cursor.value()))
                cursor.next()
                if (key := cursor.key()) is None:
                    break
        uncommitted = self._overlay.scan_stem(stem, first, last)
        if uncommitted:
            found = list(overlay(uncommitted, found))
        return found if len(found) <= most else None

    def _open_cursor(self) -> tuple[int, Any]:
        self._validate_open()
        try:
            opened = self._cursor = get_ident(), self._database().iter()
        except Exception as exc:
            raise self._failed("open an iterator on", exc) from exc
        return opened

    def scan_many(self, bounds: Iterable[tuple[bytes, bytes]]) -> Iterator[Sequence[ByteEntry]]:
        """The entries of many ranges, both ends included; one iterator serves all, fastest where they are in order."""
        self._validate_open()
        try:
            below: Any = self._database().iter()
        except Exception as exc:
            raise self._failed("open an iterator on", exc) from exc
        for key_from, key_to in bounds:
            found: list[ByteEntry] = []
            below.seek(key_from)
            while below.valid() and (key := below.key()) <= key_to:
                found.append((key, below.value()))
                below.next()
            if self._overlay:
                uncommitted = self._overlay.scan(key_from, key_to, True)
                found = list(overlay(uncommitted, self._overlay.visible(found)))
            yield found

    def approximate_num_entries(self) -> int:
        """RocksDB's estimate, and what the overlay adds to it."""
        self._validate_open()
        estimate = self._database().property_int_value("rocksdb.estimate-num-keys") or 0
        added = sum(-1 if value is None else 1 for value in self._overlay.entries.values())
        return max(0, estimate + added)

    def property_value(self, name: str) -> str | None:
        """One of RocksDB's properties, for example `rocksdb.cur-size-all-mem-tables`."""
        self._validate_open()
        value: str | None = self._database().property_value(name)
        return value

    def _committed(self, key_from: bytes | None, key_to: bytes | None, to_inclusive: bool, forward: bool) -> Iterator[ByteEntry]:
        # Bounds are checked here and not in ReadOptions: rocksdict keeps no hold on bounds set there, and an iterator
        # that outlives the options object reads freed memory (14,793 of 15,000 ranges were wrong when tried).
        try:
            if forward:
                items: Any = self._database().items(from_key=key_from)
            else:
                items = self._database().items(backwards=True, from_key=key_to)
        except Exception as exc:
            raise self._failed("open an iterator on", exc) from exc
        if forward:
            return self._until(items, key_to, to_inclusive) if key_to is not None else items
        return self._down_to(items, key_from, key_to, to_inclusive)

    def _until(self, items: Iterator[ByteEntry], key_to: bytes, to_inclusive: bool) -> Iterator[ByteEntry]:
        for entry in items:
            if entry[0] >= key_to:
                if to_inclusive and entry[0] == key_to:
                    yield entry
                return
            yield entry

    def _down_to(
        self, items: Iterator[ByteEntry], key_from: bytes | None, key_to: bytes | None, to_inclusive: bool
    ) -> Iterator[ByteEntry]:
        for entry in items:
            if key_from is not None and entry[0] < key_from:
                return
            if to_inclusive or entry[0] != key_to:
                yield entry

    def _database(self) -> Rdict:
        if self._db is None:
            self._validate_open()
            raise ProcessorStateError(f"store {self._name} has no open RocksDB")
        return self._db

    def _failed(self, doing: str, reason: Exception) -> ProcessorStateError:
        return ProcessorStateError(f"cannot {doing} store {self._name} in folder {self._folder}: {reason}{advice(str(reason))}")


def _partition_key(prefix: bytes, partition: TopicPartition) -> bytes:
    return prefix + f"{partition.partition}:{partition.topic}".encode()


def _read_numbers(meta: Rdict, prefix: bytes) -> dict[TopicPartition, int]:
    """What is kept for each partition under a prefix."""
    found: dict[TopicPartition, int] = {}
    entries: Any = meta.items(from_key=prefix)
    for key, value in entries:
        if not key.startswith(prefix):
            break
        number, _, topic = key[len(prefix) :].decode().partition(":")
        found[TopicPartition(topic, int(number))] = int(value)
    return found
