"""Committed state as a Spark DataFrame: a task for each partition of a store, on the host where its state is.

Nothing is read before an action, and every action reads anew: a DataFrame of a store is a live table. Where the state is, its
tasks ask the driver when they run, since it may have moved since the table was made.
"""

from __future__ import annotations

import http.client
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.peers.connection import PeerConnection
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import distrust, server_tls
from penstock.runtime.queries.arrow_table import Columns, batches_of, columns_of
from penstock.runtime.queries.entries import all_entries
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import StorePartition
from penstock.spark.channel import Address
from penstock.spark.guide import Source, ask
from penstock.spark.internals import placed_rows
from penstock.spark.messages import Application
from penstock.spark.query_client import LanePartition
from penstock.spark.query_listener import readable_store
from penstock.spark.worker import packed, unpacked
from penstock.state.directory import site_here, state_dir_here

_SERVER_SECONDS = 60.0
_PATIENCE = 60.0
_MAX_REASON = 64 * 1024


def state_dataframe(
    spark: SparkSession, application: Application, store: ReadableStore, sources: Sequence[Source], guide: Address
) -> DataFrame:
    """A DataFrame over these partitions of a store; `sources` tells where they are now, the guide where they are then."""
    columns = columns_of(store)
    schema = ", ".join(f"{name} {kind}" for name, kind in columns)
    tasks = tuple(source.task_id for source in sources)
    read = partial(_read, packed(application), store.name, tasks, tuple(columns), guide)
    # Rows, not Arrow: Spark's way for Arrow batches of Python functions wants pandas, which penstock does without.
    indices = placed_rows(spark.sparkContext, [source.executor for source in sources])
    return spark.createDataFrame(indices.mapPartitions(read), schema, verifySchema=False)


def _read(
    application: bytes, store_name: str, tasks: Sequence[TaskId], columns: Columns, guide: Address, indices: Iterator[int]
) -> Iterator[tuple[Any, ...]]:
    known = unpacked(application)
    for index in indices:
        for batch in _batches(known, store_name, tasks[index], columns, guide):
            yield from zip(*(column.to_pylist() for column in batch.columns))


def _batches(
    application: Application, store_name: str, task_id: TaskId, columns: Columns, guide: Address
) -> Iterator[pa.RecordBatch]:
    """Read a partition where it is; until the first rows have come, one that moves is looked for again."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        source = ask(guide, application, store_name, task_id)
        batches = _read_source(application, store_name, source, columns)
        try:
            first = next(batches, None)
        except StateStoreNotAvailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
            continue
        if first is not None:
            yield first
            yield from batches
        return


def _read_source(application: Application, store_name: str, source: Source, columns: Columns) -> Iterator[pa.RecordBatch]:
    if source.server is not None:
        yield from _read_server(application, store_name, source.server, source.task_id.partition)
        return
    store = readable_store(application, source.task_id, store_name)
    with tempfile.TemporaryDirectory(prefix="penstock-table-") as log_folder:
        partition: StorePartition
        if source.address is None or (store.on_disk and source.site == site_here()):
            config = application.config
            folder = state_dir_here(config["state.dir"]) / config["application.id"] / source.folder
            partition = store.partition_on_disk(source.task_id, folder, Path(log_folder))
        else:
            partition = LanePartition(store, source.task_id, application, lambda: source.address)
        try:
            with partition.lease() as lease:
                yield from batches_of(all_entries(lease.store), columns)
        finally:
            partition.close()


def _read_server(application: Application, store_name: str, server: str, partition: int) -> Iterator[pa.RecordBatch]:
    """A partition that another instance has, as an Arrow stream, of which every part is proved to be the other's."""
    host, target = HostInfo.build_from_endpoint(server), f"/api/stores/{quote(store_name, safe='')}/table?partition={partition}"
    assert host is not None
    tls = server_tls(application.config)
    try:
        context = None if tls is None else tls.for_peers()
        connection = PeerConnection(host, PeerKeys.of(application.config), _SERVER_SECONDS, context)
        try:
            with connection.stream(target, _MAX_REASON) as (status, body):
                if status != 200:
                    raise StateStoreNotAvailableError(
                        f"the instance at {server} does not give partition {partition} of store {store_name}: {status} "
                        f"{body.read(999)!r}"
                    )
                yield from pa.ipc.open_stream(body)
                body.read()  # the end has to have come, not only the connection's
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, pa.ArrowInvalid) as exc:
        raise StateStoreNotAvailableError(
            f"partition {partition} of store {store_name} at {server} cannot be read: {distrust(exc) or exc}"
        ) from exc
