"""What stores tell of themselves in numbers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Consumed, Materialized, Serdes, StreamsBuilder, TopologyTestDriver
from penstock.state.layers.rocksdb_metrics import RocksDBStatistics

TEXT = Serdes.string()
KIP_471 = {
    *("bytes-written-rate", "bytes-written-total", "bytes-read-rate", "bytes-read-total"),
    *("memtable-bytes-flushed-rate", "memtable-bytes-flushed-total", "memtable-hit-ratio"),
    *("memtable-flush-time-avg", "memtable-flush-time-max", "compaction-time-avg", "compaction-time-max"),
    *("block-cache-data-hit-ratio", "block-cache-index-hit-ratio", "block-cache-filter-hit-ratio"),
    *("write-stall-duration-avg", "write-stall-duration-total"),
    *("bytes-read-compaction-rate", "bytes-written-compaction-rate", "number-file-errors-total"),
}


def store_metrics(level: str, records: int = 3) -> dict[str, Any]:
    builder = StreamsBuilder()
    builder.table("in", Consumed(TEXT, TEXT), Materialized("names", TEXT, TEXT))
    with TopologyTestDriver(builder.build(), {"metrics.recording.level": level}) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for number in range(records):
            topic.pipe_input(str(number), "x", 1000)
        found = driver.metrics()
        return {name.name: metric.metric_value for name, metric in found.items() if name.group == "stream-state-metrics"}


def test_should_count_what_rocksdb_does_at_debug() -> None:
    found = store_metrics("DEBUG")
    assert found.keys() >= KIP_471
    assert found["bytes-written-total"] > 0
    assert found["restore-rate"] > 0
    assert found["restore-latency-max"] > 0
    assert "record-e2e-latency-avg" not in found


def test_should_have_rocksdb_count_nothing_at_info() -> None:
    found = store_metrics("INFO")
    assert not KIP_471 & found.keys()
    assert found["estimate-num-keys"] == 3


def test_should_measure_the_age_of_what_is_put_at_trace() -> None:
    found = store_metrics("TRACE")
    assert found["record-e2e-latency-max"] >= found["record-e2e-latency-min"] > 1_000_000


@pytest.fixture
def statistics() -> Any:
    texts = [
        "rocksdb.memtable.hit COUNT : 8\nrocksdb.memtable.miss COUNT : 2\nrocksdb.bytes.written COUNT : 100\n"
        "rocksdb.db.flush.micros P50 : 1 P95 : 1 P99 : 1 P100 : 4000.0 COUNT : 1 SUM : 4000\n",
        "rocksdb.memtable.hit COUNT : 9\nrocksdb.memtable.miss COUNT : 5\nrocksdb.bytes.written COUNT : 400\n"
        "rocksdb.db.flush.micros P50 : 1 P95 : 1 P99 : 1 P100 : 4000.0 COUNT : 3 SUM : 8000\n",
    ]
    times = {"now": 0.0}

    def clock() -> float:
        return times["now"]

    found = RocksDBStatistics(lambda: texts.pop(0) if len(texts) > 1 else texts[0], clock)
    return found, times


def test_should_tell_ratios_rates_and_averages_of_the_last_interval(statistics: Any) -> None:
    found, times = statistics
    assert found.ratio("memtable") == 0.8
    times["now"] = 5.0
    assert found.total("bytes.written") == 100  # it has just looked
    times["now"] = 10.0
    assert found.ratio("memtable") == 0.25
    assert found.total("bytes.written") == 400
    assert found.rate("bytes.written") == 30.0
    assert found.average_ms("db.flush.micros") == 2.0
    assert found.maximum_ms("db.flush.micros") == 4.0


def test_should_tell_nothing_of_what_was_not_counted(statistics: Any) -> None:
    found, _ = statistics
    assert (found.ratio("block.cache.data"), found.total("unknown"), found.average_ms("unknown")) == (0.0, 0, 0.0)
    closed = RocksDBStatistics(lambda: None)
    assert (closed.total("bytes.written"), closed.rate("bytes.written")) == (0, 0.0)
