"""Workers that die while they write files: each row is in the lake once, and readers never see it twice or torn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock import Consumed, Serdes, StreamsBuilder
from tests.faults.dying import FILES, Rows
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import texts, topics

COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def seen(path: Path, format: str) -> list[int]:
    """The rows as they are there now, in order."""
    if format == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(path)).to_pyarrow_table() if (path / "_delta_log").is_dir() else COLUMNS.empty_table()
    else:
        table = ds.dataset(str(path), COLUMNS, format="parquet", partitioning="hive").to_table()
    return sorted(table.column("id").to_pylist())


class Reader(threading.Thread):
    """Reads again and again, and keeps the first thing that should not be."""

    def __init__(self, path: Path, format: str) -> None:
        super().__init__(daemon=True)
        self._path, self._format = path, format
        self._stop_reading = threading.Event()
        self.wrong: Any = None

    def run(self) -> None:
        most = 0
        while not self._stop_reading.wait(0.02):
            try:
                found = seen(self._path, self._format)
            except Exception as exc:  # noqa: BLE001 - the test tells of it
                self.wrong = self.wrong or exc
                return
            if len(set(found)) < len(found) or len(found) < most:
                self.wrong = self.wrong or f"{len(found)} rows after {most}: {found}"
            most = len(found)

    def stop(self) -> None:
        self._stop_reading.set()
        self.join(LIMIT)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2"])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_should_write_each_row_once_though_a_worker_dies_at_each_step(
    kafka: Kafka, run: Callable[..., Any], spark: Any, tmp_path: Path, format: str, guarantee: str
) -> None:
    (source,) = topics(kafka, "numbers")
    (orders := tmp_path / "orders").mkdir()
    (path := tmp_path / "lake").mkdir()
    to_row, text = Rows(orders), Serdes.string()
    builder = StreamsBuilder()
    builder.stream(source, Consumed(text, text)).map_values(to_row).to_files(
        path, format, partition_by="kind" if format == "parquet" else None, schema=COLUMNS, roll_bytes=1, name="lake"
    )
    streams = run(builder.build(), {"application.id": unique("files"), "processing.guarantee": guarantee})
    reader = Reader(path, format)
    reader.start()
    expected: list[int] = []
    for step in (None, *FILES):
        died = to_row.order(step) if step else None
        for partition in (0, 1):
            numbers = range(len(expected), len(expected) + 50)
            kafka.feed(source, texts(*(("k", str(number)) for number in numbers)), partition=partition)
            expected += numbers
        if died is not None:
            wait_until(died.exists, f"a worker has died: {step}")
        wait_until(lambda wanted=list(expected): seen(path, format) == wanted, f"every row once, after {step}")
    reader.stop()
    assert reader.wrong is None
    if format == "parquet":
        assert sorted(row.id for row in spark.read.parquet(str(path)).select("id").collect()) == expected
    streams.close()
    assert seen(path, format) == expected
