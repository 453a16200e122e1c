"""The query listener of a stream thread, for state in its process or on its host.

In-memory stores are in the thread's process, and on a cluster a store's files are on the thread's host. The listener accepts
readers that know the application's key (`spark/queries/channel.py`), each on its own thread. Stores on disk are read as
RocksDB secondaries, in-memory stores between two batches (`spark/queries/live_store.py`).

A reader sends `lease`, then `call`s, then `release`. Entries of an iterator are sent in parts, one for each `next`. The
driver sends `doing` and gets the current work at once, also during a batch; `report`; `leave`, which ends the residency after
the batch; and `close`, which closes the stream thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.errors import InvalidStateStoreError, PenstockError, UnknownStateStoreError
from penstock.ids import TaskId
from penstock.query.queries import ResultOrder
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.queries.opening import CustomStore, ReadableStore, custom_store_message, queryable_store
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.scratch import ScratchFolder
from penstock.spark.messages import Application, ThreadReport
from penstock.spark.queries.channel import Channel, send_error
from penstock.spark.queries.entry_forms import parts_of
from penstock.spark.queries.listening import Listening
from penstock.spark.queries.live_store import LiveStore
from penstock.spark.reports import write_report
from penstock.spark.worker.active_tasks import ActiveTasks
from penstock.spark.worker.current_work import CurrentWork
from penstock.state.store import ValueAndTimestamp, VersionedRecord
from penstock.wire import Codec

CODEC = Codec(TaskId, VersionedRecord, ResultOrder, ValueAndTimestamp)
"""The codec of requests and answers: plain values and these classes."""

_IDLE_SECONDS = 120.0
_LONGEST_FOLDER = 60  # a socket path has at most 107 bytes

_METHODS = frozenset(
    {
        "get",
        "get_versions",
        "scan_latest",
        "range",
        "all",
        "prefix_scan",
        "approximate_num_entries",
        "fetch",
        "fetch_range",
        "fetch_key_range",
        "fetch_all",
        "fetch_session",
        "find_sessions",
        "find_sessions_key_range",
    }
)


class QueryListener:
    """Listens in a stream thread's process at `address`, for `connect`.

    `host` is the thread's address for the driver, or None if both are on one host.
    """

    def __init__(
        self,
        application: Application,
        tasks: ActiveTasks,
        host: str | None,
        work: CurrentWork | None = None,
        report: Callable[[], ThreadReport] = ThreadReport,
        close_thread: Callable[[], None] = lambda: None,
    ) -> None:
        self._application = application
        self._tasks = tasks
        self._work = work or CurrentWork()
        self._report, self._close_thread = report, close_thread
        self.batch = threading.Lock()
        """Held while a batch runs: in-memory stores then hold what is not committed."""
        self.leave = threading.Event()
        """Set when the driver ends the residency: the thread stops waiting."""
        self._number, self._called_back = 0, 0
        self._disk: dict[tuple[TaskId, str], StorePartition] = {}
        self._disk_lock = threading.Lock()
        self._scratch = ScratchFolder("penstock-q-", _folder_of_spark())
        self._listening = Listening(
            "penstock-queries",
            application.query_key,
            CODEC,
            self._answer,
            folder=self._scratch.path if host is None else None,
            host=host or "",
            identity=None if host is None else application.identity,
        )
        self.address = self._listening.address

    def begin(self, number: int) -> None:
        """Begin the residency with this number. The driver may already have asked to end it."""
        self._number = number
        if self._called_back < number:
            self.leave.clear()

    def is_called_back(self, number: int) -> bool:
        """Return True if the driver asked to end this residency."""
        return self._called_back >= number

    def close(self) -> None:
        """Close all readers and remove the listener's files."""
        self._listening.close()
        with self._disk_lock:
            partitions, self._disk = list(self._disk.values()), {}
        for partition in partitions:
            partition.close()
        self._scratch.close()

    def _answer(self, channel: Channel) -> None:
        lease: Lease | None = None
        try:
            while True:
                channel.idle_since = time.monotonic() if lease is None else None
                request, *arguments = channel.receive(_IDLE_SECONDS)
                channel.idle_since = None
                try:
                    if request == "lease" and lease is None:
                        lease = self._lease(*arguments)
                        channel.send("value", lease.position.to_json())
                    elif request == "call" and lease is not None:
                        _call(channel, lease, *arguments)
                    elif request == "query" and isinstance(lease, LiveStore):
                        channel.send("value", lease.query(*arguments))
                    elif request == "leave":
                        self._called_back = max(self._called_back, int(*arguments))
                        if self._called_back >= self._number:  # otherwise that residency is over
                            self.leave.set()
                        channel.send("value", None)
                    elif request == "report":
                        found = write_report(self._report()) if arguments == [self._number] else b""
                        channel.send("value", found)
                    elif request == "close":
                        self._close_thread()
                        channel.send("value", None)
                    elif request == "doing":
                        channel.send("value", tuple(self._work.now()))
                    elif request == "release":
                        _release(lease)
                        lease = None
                    else:
                        raise InvalidStateStoreError(f"a reader sent {request[:50]!r} out of order")
                except (PenstockError, ValueError, TypeError, RuntimeError, LookupError, AttributeError) as exc:
                    send_error(channel, exc)
        finally:
            _release(lease)

    def _lease(self, task_id: TaskId, store_name: str, on_disk: bool) -> Lease:
        if type(task_id) is not TaskId or type(task_id.subtopology) is not int or type(task_id.partition) is not int:
            raise InvalidStateStoreError(f"{task_id!r} is not a task")  # it becomes a folder name
        if on_disk:
            return _Below(self._on_disk(task_id, store_name).lease())
        return LiveStore(self._tasks, task_id, store_name, self.batch)

    def _on_disk(self, task_id: TaskId, store_name: str) -> StorePartition:
        with self._disk_lock:
            partition = self._disk.get((task_id, store_name))
            if partition is None:
                store = readable_store(self._application, task_id, store_name)
                folder = self._tasks.folder_of(task_id)
                partition = self._disk[task_id, store_name] = store.partition_on_disk(task_id, folder, self._scratch.path)
            return partition


def _call(channel: Channel, lease: Lease, method: str, arguments: tuple[Any, ...]) -> None:
    if method not in _METHODS:
        raise InvalidStateStoreError(f"{method} is not a method for readers")
    if method == "prefix_scan":
        arguments = (*arguments, _as_is)
    found = lease.call(method, arguments) if isinstance(lease, LiveStore) else getattr(lease.store, method)(*arguments)
    if not isinstance(found, Iterator):
        channel.send("value", found)
        return
    try:
        for form, part, ended in parts_of(found):
            channel.send("entries", form, part, ended)
            if ended or channel.receive(_IDLE_SECONDS) != ("next",):
                return
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


class _Below(Lease):
    """The store of bytes below a leased typed store on disk."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.store = lease.store.wrapped
        self.position = lease.position

    def close(self) -> None:
        self._lease.close()


def readable_store(application: Application, task_id: TaskId, store_name: str) -> ReadableStore:
    """Return a store of the application in the form that queries read."""
    found = store_to_query(application, task_id, store_name)
    if isinstance(found, CustomStore):
        raise InvalidStateStoreError(custom_store_message(found.name, found.kind))
    return found


def store_to_query(application: Application, task_id: TaskId, store_name: str) -> ReadableStore | CustomStore:
    """Return a store of the application, including user classes that only answer queries."""
    config = application.config
    try:
        if task_id == GLOBAL_TASK_ID:
            assert application.global_topology is not None
            return queryable_store(application.global_topology.stores[store_name], config, None)
        subtopology = application.plan.subtopologies[task_id.subtopology]
        return queryable_store(subtopology.stores[store_name], config, subtopology.store_to_changelog.get(store_name))
    except KeyError as exc:
        raise UnknownStateStoreError(f"task {task_id} has no store {store_name!r}") from exc


def _folder_of_spark() -> str | None:
    """Return a folder that Spark removes when it ends, also after a worker was killed. None if unknown."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return folder if folder and len(folder) <= _LONGEST_FOLDER and os.access(folder, os.W_OK) else None


def _release(lease: Lease | None) -> None:
    if lease is not None:
        lease.close()


def _as_is(topic: str, value: Any) -> Any:
    return value
