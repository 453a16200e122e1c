"""The side of a lane that answers readers: for state that only its process or its host has.

In-memory stores live in the lane's process, and on a cluster the files of a store are on the lane's host. A thread in the
lane's process listens for readers that know the application's key; each gets a thread of its own. Stores on disk are read as
secondaries, past the tasks. In-memory stores are read between turns, when they hold what is committed and nothing else.

A reader says `lease`, then `call`s, then `release`; entries of an iterator come in parts.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from penstock.errors import InvalidStateStoreError, PenstockError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.spark.lane_tasks import LaneTasks
from penstock.spark.messages import Application
from penstock.state.reading import bytes_below_cache, innermost

PART = 1_000
"""How many entries of an iterator go in one message."""

_MAX_READERS = 64
_CHALLENGE_SECONDS = 10.0
_IDLE_SECONDS = 120.0
_TURN_SECONDS = 30.0

_METHODS = frozenset(
    {
        "get",
        "get_versions",
        "scan_latest",
        "range",
        "reverse_range",
        "all",
        "reverse_all",
        "prefix_scan",
        "approximate_num_entries",
        "fetch",
        "fetch_range",
        "backward_fetch_range",
        "fetch_key_range",
        "backward_fetch_key_range",
        "fetch_all",
        "backward_fetch_all",
        "backward_all",
        "fetch_session",
        "backward_fetch",
        "find_sessions",
        "backward_find_sessions",
        "find_sessions_key_range",
        "backward_find_sessions_key_range",
    }
)


class QueryListener:
    """Listens in a lane's process; `address` is where, as `connect` takes it."""

    def __init__(self, application: Application, tasks: LaneTasks, on_this_host: bool) -> None:
        self._application = application
        self._tasks = tasks
        self.turn = threading.Lock()
        """Held while a turn runs: in-memory stores then hold what is not committed."""
        self._disk: dict[tuple[TaskId, str], StorePartition] = {}
        self._disk_lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-q-"))
        self._readers = threading.Semaphore(_MAX_READERS)
        self._socket, self.address = listen(self._folder, on_this_host)
        self._closed = False
        threading.Thread(target=self._accept, name="penstock-queries", daemon=True).start()

    def close(self) -> None:
        """Answer no more readers."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._disk_lock:
            partitions, self._disk = list(self._disk.values()), {}
        for partition in partitions:
            partition.close()
        with contextlib.suppress(OSError):
            for path in (self._folder / "socket", self._folder):
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._closed:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                return
            if not self._readers.acquire(blocking=False):
                accepted.close()
                continue
            threading.Thread(target=self._serve, args=(accepted,), name="penstock-query", daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        connection: Connection[Any, Any] = Connection(accepted.detach())
        try:
            if is_known(connection, self._application.query_key):
                self._answer(connection)
        except (OSError, EOFError, pickle.PickleError):
            pass  # the reader is gone
        finally:
            connection.close()
            self._readers.release()

    def _answer(self, connection: Connection[Any, Any]) -> None:
        lease: Lease | None = None
        try:
            while connection.poll(_IDLE_SECONDS):
                request, *arguments = connection.recv()
                try:
                    if request == "lease":
                        lease = self._lease(*arguments)
                        connection.send(("value", lease.position.to_json()))
                    elif request == "call" and lease is not None:
                        self._call(connection, lease.store, *arguments)
                    elif request == "release":
                        _release(lease)
                        lease = None
                    else:
                        raise InvalidStateStoreError(f"a reader sent {request!r} out of turn")
                except PenstockError as exc:
                    connection.send(("error", exc))
                except (ValueError, TypeError, RuntimeError) as exc:
                    connection.send(("error", InvalidStateStoreError(f"the store failed to answer: {exc!r}")))
        finally:
            _release(lease)

    def _lease(self, task_id: TaskId, store_name: str, on_disk: bool) -> Lease:
        if on_disk:
            leased = self._on_disk(task_id, store_name).lease()
            return _Below(leased)
        return _Live(self._tasks, task_id, store_name, self.turn)

    def _on_disk(self, task_id: TaskId, store_name: str) -> StorePartition:
        with self._disk_lock:
            partition = self._disk.get((task_id, store_name))
            if partition is None:
                store = readable_store(self._application, task_id, store_name)
                folder = self._tasks.folder_of(task_id)
                partition = self._disk[task_id, store_name] = store.partition_on_disk(task_id, folder, self._folder)
            return partition

    def _call(self, connection: Connection[Any, Any], store: Any, method: str, arguments: tuple[Any, ...]) -> None:
        if method not in _METHODS:
            raise InvalidStateStoreError(f"{method} is not a method for readers")
        found = getattr(store, method)(*arguments)
        if not isinstance(found, Iterator):
            connection.send(("value", found))
            return
        try:
            while True:
                part = list(islice(found, PART))
                connection.send(("entries", part, len(part) < PART))
                if len(part) < PART or not connection.poll(_IDLE_SECONDS) or connection.recv() != ("next",):
                    return
        finally:
            close = getattr(found, "close", None)
            if close is not None:
                close()


class _Below(Lease):
    """A leased store of bytes on disk."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.store = lease.store.wrapped
        self.position = lease.position

    def close(self) -> None:
        self._lease.close()


class _Live(Lease):
    """A store in the lane's memory: each call runs between turns, and takes along all that it found."""

    def __init__(self, tasks: LaneTasks, task_id: TaskId, store_name: str, turn: threading.Lock) -> None:
        self._find = tasks.live_store
        self._task_id, self._name, self._turn = task_id, store_name, turn
        self.store = self
        self._between_turns(lambda: self._find(task_id, store_name))
        self.position = self._between_turns(lambda: tasks.position_of(task_id))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in _METHODS:
            raise AttributeError(method)

        def call(*arguments: Any) -> Any:
            def read() -> Any:
                store = bytes_below_cache(self._find(self._task_id, self._name))
                found = getattr(store, method)(*arguments)
                if isinstance(found, Iterator):
                    found = iter(list(found))
                    getattr(innermost(store), "forget_order", _nothing)()
                return found

            return self._between_turns(read)

        return call

    def _between_turns(self, read: Callable[[], Any]) -> Any:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise StateStoreNotAvailableError(
                f"store {self._name} of task {self._task_id} is in memory and its turn has not ended for {_TURN_SECONDS:.0f} s"
            )
        try:
            return read()
        finally:
            self._turn.release()


def readable_store(application: Application, task_id: TaskId, store_name: str) -> ReadableStore:
    """A store of the application, as queries read it."""
    config = application.config
    if task_id == GLOBAL_TASK_ID:
        assert application.global_topology is not None
        return ReadableStore(application.global_topology.stores[store_name], config, None)
    subtopology = application.plan.subtopologies[task_id.subtopology]
    return ReadableStore(subtopology.stores[store_name], config, subtopology.store_to_changelog.get(store_name))


def listen(folder: Path, on_this_host: bool) -> tuple[socket.socket, str | int]:
    """A socket file where the driver is on this host, else a port."""
    if on_this_host:
        listening = socket.socket(socket.AF_UNIX)
        path = str(folder / "socket")
        listening.bind(path)
        os.chmod(path, 0o600)
        address: str | int = path
    else:
        listening = socket.socket(socket.AF_INET)
        listening.bind(("", 0))
        address = listening.getsockname()[1]
    listening.listen(_MAX_READERS)
    return listening, address


def is_known(connection: Connection[Any, Any], key: bytes) -> bool:
    """Whether the reader knows the key, and we know it too; nothing is unpickled before. A stranger may say nothing at all."""
    timer = threading.Timer(_CHALLENGE_SECONDS, lambda: socket.socket(fileno=os.dup(connection.fileno())).shutdown(2))
    timer.daemon = True
    timer.start()
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except AuthenticationError:
        return False
    finally:
        timer.cancel()
    return True


def _release(lease: Lease | None) -> None:
    if lease is not None:
        lease.close()


def _nothing() -> None:
    return None
