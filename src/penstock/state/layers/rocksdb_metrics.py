"""What RocksDB tells of itself, under Kafka Streams' names; asked for when the metrics are read.

RocksDB's statistics (bytes read and written, hit ratios, compaction times) are not among them: the binding does not give them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.state.engines.rocksdb import RocksDBStore

_PROPERTIES = {
    "num-immutable-mem-table": "Total number of immutable memtables that have not yet been flushed",
    "cur-size-active-mem-table": "Approximate size of active memtable in bytes",
    "cur-size-all-mem-tables": "Approximate size of active and unflushed immutable memtables in bytes",
    "size-all-mem-tables": "Approximate size of active, unflushed immutable, and pinned immutable memtables in bytes",
    "num-entries-active-mem-table": "Total number of entries in the active memtable",
    "num-deletes-active-mem-table": "Total number of delete entries in the active memtable",
    "num-entries-imm-mem-tables": "Total number of entries in the unflushed immutable memtables",
    "num-deletes-imm-mem-tables": "Total number of delete entries in the unflushed immutable memtables",
    "mem-table-flush-pending": "Reports 1 if a memtable flush is pending; otherwise it reports 0",
    "num-running-flushes": "Number of currently running flushes",
    "compaction-pending": "Reports 1 if at least one compaction is pending, otherwise it reports 0",
    "num-running-compactions": "Number of currently running compactions",
    "estimate-pending-compaction-bytes": "Estimated number of bytes a compaction needs to rewrite on disk",
    "total-sst-files-size": "Total size in bytes of all SST files",
    "live-sst-files-size": "Total size in bytes of all SST files that belong to the latest LSM tree",
    "num-live-versions": "Number of live versions of the LSM tree",
    "block-cache-capacity": "Capacity of the block cache in bytes",
    "block-cache-usage": "Memory size of the entries residing in block cache in bytes",
    "block-cache-pinned-usage": "Memory size for the entries being pinned in the block cache in bytes",
    "estimate-num-keys": "Estimated number of keys in the active and unflushed immutable memtables and storage",
    "estimate-table-readers-mem": "Estimated memory in bytes used for reading SST tables, excluding memory used in block cache",
    "background-errors": "Total number of background errors",
}


def watch_rocksdb(store: Any, gauge: Callable[[str, str, Callable[[], Any]], None]) -> None:
    """Make gauges of the properties of the RocksDB under a store; none where there is no RocksDB."""
    engine = _rocksdb_under(store)
    if engine is not None:
        for name, description in _PROPERTIES.items():
            gauge(name, description, _reader(engine, name))


def _rocksdb_under(store: Any) -> RocksDBStore | None:
    while hasattr(store, "wrapped"):
        store = store.wrapped
    for candidate in (store, getattr(store, "_db", None)):
        if isinstance(candidate, RocksDBStore):
            return candidate
    return None


def _reader(engine: RocksDBStore, name: str) -> Callable[[], int | None]:
    return lambda: engine.property_int(f"rocksdb.{name}")
