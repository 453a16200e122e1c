"""Committed state as a Spark DataFrame: a task for each partition of a store, on the host where its state is.

Nothing is read before an action, and every action reads anew: a DataFrame of a store is a live table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.ids import TaskId
from penstock.query.columns import as_column, sql_type
from penstock.runtime.queries.entries import Entry, all_entries
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import StorePartition
from penstock.spark.messages import Application
from penstock.spark.placement import located_rows
from penstock.spark.query_client import Address, LanePartition
from penstock.spark.query_listener import readable_store
from penstock.spark.worker import packed, unpacked

_BATCH = 10_000


@dataclass(frozen=True)
class Source:
    """Where one partition of a store is read: from files of the host, or through the lane at an address."""

    task_id: TaskId
    folder: str
    address: Address | None = None
    executor: str | None = None


def columns_of(store: ReadableStore) -> list[tuple[str, str]]:
    """The columns of a store's table, with their SQL types."""
    columns = [("key", sql_type(store.key_serde))]
    if store.kind in ("window", "session"):
        columns += [("window_start", "bigint"), ("window_end", "bigint")]
    columns.append(("value", sql_type(store.value_serde)))
    if store.kind == "versioned" or (store.values != "plain" and store.kind != "session"):
        columns.append(("timestamp", "bigint"))
    return columns


def state_dataframe(spark: SparkSession, application: Application, store: ReadableStore, sources: Sequence[Source]) -> DataFrame:
    """A DataFrame over these partitions of a store."""
    columns = columns_of(store)
    schema = ", ".join(f"{name} {kind}" for name, kind in columns)
    read = partial(_read, packed(application), store.name, tuple(sources), tuple(columns))
    executors = [source.executor for source in sources]
    if not any(executors):
        rows = spark.range(0, len(sources), 1, max(1, len(sources)))
    else:
        rows = spark.createDataFrame(located_rows(spark.sparkContext, executors).map(_row), "id bigint")
    return rows.mapInArrow(read, schema)


def _row(index: int) -> tuple[int]:
    return (index,)


def _read(
    application: bytes,
    store_name: str,
    sources: Sequence[Source],
    columns: Sequence[tuple[str, str]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from _read_source(unpacked(application), store_name, sources[index], columns)


def _read_source(
    application: Application, store_name: str, source: Source, columns: Sequence[tuple[str, str]]
) -> Iterator[pa.RecordBatch]:
    store = readable_store(application, source.task_id, store_name)
    with tempfile.TemporaryDirectory(prefix="penstock-table-") as log_folder:
        partition: StorePartition
        if source.address is None:
            partition = store.partition_on_disk(source.task_id, Path(source.folder), Path(log_folder))
        else:
            partition = LanePartition(store, source.task_id, application.query_key, lambda: source.address)
        try:
            with partition.lease() as lease:
                yield from _batches(all_entries(lease.store), columns)
        finally:
            partition.close()


def _batches(entries: Iterator[Entry], columns: Sequence[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    names = [name for name, _ in columns]
    types = [_arrow_type(kind) for _, kind in columns]
    positions = [Entry._fields.index(name) for name in names]
    while part := list(islice(entries, _BATCH)):
        arrays = [
            pa.array([as_column(entry[at], kind) for entry in part], type_)
            for at, (_, kind), type_ in zip(positions, columns, types)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names)


def _arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("array<"):
        return pa.list_(_arrow_type(kind[6:-1]))
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "double": pa.float64(),
        "float": pa.float32(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "void": pa.null(),
    }[kind]
