"""Tables of the application in this driver, read from files, stream threads or other instances.

Nothing is read before an action, and every action reads again: a DataFrame of a store is live. When Spark's tasks run, they
ask the driver for the state's location (`spark/queries/store_locator.py`). It may have moved since the table was made, and
Spark may run a task on any host. A task reads files on its own host, and other state through its stream thread or query
server.
"""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.errors import PenstockError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.peers.connection import PeerConnection
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import distrust, server_tls
from penstock.query.table_read import TableRead
from penstock.runtime.queries.arrow_table import Columns, batches_of
from penstock.runtime.queries.entries import entries_for
from penstock.runtime.queries.partition import StorePartition
from penstock.spark.messages import Application
from penstock.spark.queries.channel import Address
from penstock.spark.queries.query_client import WorkerPartition
from penstock.spark.queries.query_listener import readable_store
from penstock.spark.queries.remote_tables import checked, patient_batches, table_target
from penstock.spark.queries.store_locator import StoreSource, ask
from penstock.state.directory import site_here, state_dir_here

_SERVER_SECONDS = 60.0
_MAX_REASON = 64 * 1024


def located_batches(
    application: Application, store_name: str, task_id: TaskId, columns: Columns, guide: Address, read: TableRead
) -> Iterator[pa.RecordBatch]:
    """Yield a partition from its current location. While it moves, it is located again."""

    def look() -> Iterator[pa.RecordBatch]:
        source = ask(guide, application, store_name, task_id)
        return read_source(application, store_name, source, columns, read)

    return patient_batches(look)


def read_source(
    application: Application, store_name: str, source: StoreSource, columns: Columns, read: TableRead
) -> Iterator[pa.RecordBatch]:
    """Yield a partition from a location."""
    if source.server is not None:
        yield from _read_server(application, store_name, source.server, source.task_id.partition, columns, read)
        return
    store = readable_store(application, source.task_id, store_name)
    with tempfile.TemporaryDirectory(prefix="penstock-table-") as log_folder:
        partition: StorePartition
        if source.address is None or (store.on_disk and source.site == site_here()):
            config = application.config
            folder = state_dir_here(config["state.dir"]) / config["application.id"] / source.folder
            partition = store.partition_on_disk(source.task_id, folder, Path(log_folder))
        else:
            partition = WorkerPartition(store, source.task_id, application, lambda: source.address)
        try:
            with partition.lease() as lease:
                yield from batches_of(entries_for(store, lease.store, read), columns)
        finally:
            partition.close()


def _read_server(
    application: Application, store_name: str, server: str, partition: int, columns: Columns, read: TableRead
) -> Iterator[pa.RecordBatch]:
    """Yield a partition of another instance as Arrow batches. Every part of the stream is authenticated."""
    host, target = HostInfo.build_from_endpoint(server), table_target(store_name, partition, read, columns)
    assert host is not None
    tls = server_tls(application.config)
    try:
        context = None if tls is None else tls.for_peers()
        connection = PeerConnection(host, PeerKeys.of(application.config), _SERVER_SECONDS, context)
        try:
            with connection.stream(target, _MAX_REASON) as (status, body):
                if status != 200:
                    raise StateStoreNotAvailableError(
                        f"the instance at {server} does not return partition {partition} of store {store_name}: {status} "
                        f"{body.read(999)!r}"
                    )
                yield from checked(pa.ipc.open_stream(body), columns)
                body.read()  # check the end of the stream, not only of the connection
        finally:
            connection.close()
    except PenstockError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as exc:
        raise StateStoreNotAvailableError(
            f"partition {partition} of store {store_name} at {server} cannot be read: {distrust(exc) or exc}"
        ) from exc
