"""What RocksDB tells of itself, under Kafka Streams' names: its properties when the metrics are read, its statistics at DEBUG.

Statistics come from RocksDB as one text with all counters and histograms, which is asked for at most every ten seconds (0.7 ms).
Ratios and averages are those of the time between two such looks, as in Kafka Streams. A smallest time is not in the text, so
there is no `-min`; `-max` is the longest since the store was opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from penstock.clock import monotonic
from penstock.state.capabilities import rocksdb_of
from penstock.state.engines.rocksdb import RocksDBStore

_LOOK_EVERY = 10.0
_NUMBER = re.compile(r"^rocksdb\.(\S+) (?:P50 .*?P100 : (\S+) )?COUNT : (\d+)(?: SUM : (\d+))?$", re.MULTILINE)

Gauge = Callable[[str, str, Callable[[], Any]], None]

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


_TOTALS = {
    "bytes-written": ("bytes.written", "bytes written to the RocksDB state store"),
    "bytes-read": ("bytes.read", "bytes read from the RocksDB state store"),
    "memtable-bytes-flushed": ("flush.write.bytes", "bytes flushed from the memtable to disk"),
}
_RATES = {
    "bytes-read-compaction": ("compact.read.bytes", "bytes read during compaction"),
    "bytes-written-compaction": ("compact.write.bytes", "bytes written during compaction"),
}
_RATIOS = {
    "memtable-hit-ratio": ("memtable", "Ratio of memtable hits relative to all lookups to the memtable"),
    "block-cache-data-hit-ratio": ("block.cache.data", "Ratio of block cache hits for data relative to all lookups for data"),
    "block-cache-index-hit-ratio": (
        "block.cache.index",
        "Ratio of block cache hits for indexes relative to all lookups for indexes",
    ),
    "block-cache-filter-hit-ratio": (
        "block.cache.filter",
        "Ratio of block cache hits for filters relative to all lookups for filters",
    ),
}
_TIMES = {
    "memtable-flush-time": ("db.flush.micros", "time spent on flushing the memtable to disk in ms"),
    "compaction-time": ("compaction.times.micros", "time spent on compaction in ms"),
}


class Statistic(NamedTuple):
    """A counter, or a histogram with its sum and its maximum."""

    number: int
    total: int = 0
    maximum: float = 0.0


def parse_statistics(text: str) -> dict[str, Statistic]:
    """RocksDB's statistics by name, without their prefix.

    >>> parse_statistics("rocksdb.memtable.hit COUNT : 7")
    {'memtable.hit': Statistic(number=7, total=0, maximum=0.0)}
    >>> parse_statistics("rocksdb.db.flush.micros P50 : 1.0 P95 : 1 P99 : 1 P100 : 9.5 COUNT : 2 SUM : 12")
    {'db.flush.micros': Statistic(number=2, total=12, maximum=9.5)}
    """
    return {
        name: Statistic(int(count), int(total or 0), float(maximum or 0)) for name, maximum, count, total in _NUMBER.findall(text)
    }


class RocksDBStatistics:
    """The statistics of one RocksDB, as of the last look and of the one before."""

    def __init__(self, read: Callable[[], str | None], now: Callable[[], float] = monotonic) -> None:
        self._read, self._now = read, now
        self._looked = now()
        self._seconds = 0.0
        self._before: Mapping[str, Statistic] = {}
        self._latest: Mapping[str, Statistic] = {}

    def total(self, name: str) -> int:
        """A counter since the store was opened."""
        self._look()
        return self._of(self._latest, name).number

    def rate(self, name: str) -> float:
        """How much a counter grew in a second, between the last two looks."""
        self._look()
        return self._grown(name).number / self._seconds if self._seconds else 0.0

    def ratio(self, name: str) -> float:
        """Hits among hits and misses between the last two looks; 0 where there was neither."""
        self._look()
        hits, misses = self._grown(f"{name}.hit").number, self._grown(f"{name}.miss").number
        return hits / (hits + misses) if hits + misses else 0.0

    def average_ms(self, name: str) -> float:
        """The mean of a histogram's times between the last two looks."""
        self._look()
        grown = self._grown(name)
        return grown.total / grown.number / 1000 if grown.number else 0.0

    def maximum_ms(self, name: str) -> float:
        """The longest of a histogram's times since the store was opened."""
        self._look()
        return self._of(self._latest, name).maximum / 1000

    def _look(self) -> None:
        now = self._now()
        if self._latest and now - self._looked < _LOOK_EVERY:
            return
        text = self._read()
        if text is not None:
            self._before, self._latest = self._latest, parse_statistics(text)
            self._looked, self._seconds = now, now - self._looked

    def _grown(self, name: str) -> Statistic:
        latest, before = self._of(self._latest, name), self._of(self._before, name)
        return Statistic(latest.number - before.number, latest.total - before.total)

    @staticmethod
    def _of(found: Mapping[str, Statistic], name: str) -> Statistic:
        return found.get(name, Statistic(0))


def watch_rocksdb(store: Any, gauge: Gauge, with_statistics: bool = False) -> None:
    """Make gauges of what the RocksDB under a store tells; none where there is no RocksDB."""
    engine = rocksdb_of(store)
    if engine is not None:
        for name, description in _PROPERTIES.items():
            gauge(name, description, _reader(engine, name))
        if with_statistics:
            _watch_statistics(RocksDBStatistics(engine.statistics), gauge)


def _watch_statistics(statistics: RocksDBStatistics, gauge: Gauge) -> None:
    for name, (counter, what) in {**_TOTALS, **_RATES}.items():
        gauge(f"{name}-rate", f"Average number of {what} per second", partial(statistics.rate, counter))
        if name in _TOTALS:
            gauge(f"{name}-total", f"Total number of {what}", partial(statistics.total, counter))
    for name, (counter, what) in _RATIOS.items():
        gauge(name, what, partial(statistics.ratio, counter))
    for name, (histogram, what) in _TIMES.items():
        gauge(f"{name}-avg", f"Average {what}", partial(statistics.average_ms, histogram))
        gauge(f"{name}-max", f"Maximum {what}", partial(statistics.maximum_ms, histogram))
    gauge("write-stall-duration-avg", "Average duration of write stalls in ms", partial(statistics.average_ms, "db.write.stall"))
    gauge(
        "write-stall-duration-total",
        "Total duration of write stalls in ms",
        lambda: statistics.total("stall.micros") / 1000,
    )
    gauge("number-file-errors-total", "Total number of file errors occurred", partial(statistics.total, "no.file.errors"))


def _reader(engine: RocksDBStore, name: str) -> Callable[[], int | None]:
    return lambda: engine.property_int(f"rocksdb.{name}")
