"""The reader's side of a lane's query listener: a partition whose state only the lane's process or host has."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from penstock.errors import InvalidStateStoreError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.query.position import Position
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.state.engines.key_value_bytes import prefix_bytes
from penstock.state.iterators import PeekingIterator
from penstock.state.store import StateStore, StateStoreContext

Address = str | tuple[str, int]

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_GONE = (OSError, EOFError, AuthenticationError)


class LanePartition(StorePartition):
    """One partition of a store, read through the lane that has it.

    `address()` tells where the lane listens now; `on_lost` is called when nobody does: a lane's worker may have ended, and
    has to be opened again.
    """

    def __init__(
        self,
        store: ReadableStore,
        task_id: TaskId,
        key: bytes,
        address: Callable[[], Address | None],
        on_lost: Callable[[], None] = lambda: None,
        patience: float = 10.0,
    ) -> None:
        super().__init__(store.name, task_id)
        self._store = store
        self._key = key
        self._address = address
        self._on_lost = on_lost
        self._patience = patience
        self._free: list[tuple[Address, Connection[Any, Any]]] = []
        self._lock = threading.Lock()

    def lease(self) -> Lease:
        """A view of what is committed now."""
        deadline, lost = time.monotonic() + self._patience, False
        while True:
            address = self._address()
            try:
                if address is None:
                    raise OSError("no lane has it open")
                connection = self._connection(address)
                position = _ask(connection, "lease", self.task_id, self.store_name, self._store.on_disk)
                return _LaneLease(self, self._store, address, connection, Position.from_json(position))
            except StateStoreNotAvailableError:  # it is being opened there
                assert address is not None
                self.give_back(address, connection)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            except _GONE as exc:
                if time.monotonic() > deadline:
                    raise StateStoreNotAvailableError(
                        f"partition {self.partition} of store {self.store_name} cannot be read: the lane does not answer "
                        f"({exc}); ask again later"
                    ) from exc
                if not lost:
                    self._on_lost()
                    lost = True
                time.sleep(0.05)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            free, self._free = self._free, []
        for _, connection in free:
            connection.close()

    def give_back(self, address: Address, connection: Connection[Any, Any]) -> None:
        """Called by a lease that ends well."""
        with self._lock:
            self._free.append((address, connection))

    def _connection(self, address: Address) -> Connection[Any, Any]:
        with self._lock:
            while self._free:
                known, connection = self._free.pop()
                if known == address and not connection.closed and not connection.poll():  # something to read: it was closed
                    return connection
                connection.close()
        return connect(address, self._key)


class _LaneLease(Lease):
    def __init__(
        self,
        owner: LanePartition,
        store: ReadableStore,
        address: Address,
        connection: Connection[Any, Any],
        position: Position,
    ) -> None:
        self._owner: LanePartition | None = owner
        self._address = address
        self._connection = connection
        self.position = position
        self.engine = LaneEngine(store.name, connection)
        self.store = store.open_typed(self.engine, owner.task_id, Path())

    def close(self) -> None:
        """Give the view back."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        try:
            if self.engine.is_idle:
                self._connection.send(("release",))
                owner.give_back(self._address, self._connection)
                return
        except _GONE:
            pass
        self._connection.close()  # in the midst of an iterator: the lane lets go of it when the connection ends


class LaneEngine(StateStore):
    """A store of bytes whose methods are called in a lane."""

    def __init__(self, name: str, connection: Connection[Any, Any]) -> None:
        self._name = name
        self._connection = connection
        self._iterating = False

    name = property(lambda self: self._name)
    persistent = property(lambda self: True)
    is_open = property(lambda self: True)

    @property
    def is_idle(self) -> bool:
        """Whether no iterator is in the midst of its entries."""
        return not self._iterating

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """It is open where it is."""

    def close(self) -> None:
        """It stays open where it is."""

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> Any:
        """Entries whose key starts with the serialized prefix."""
        return self._call("prefix_scan", prefix_bytes(prefix, prefix_serializer), _as_is)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._call(method, *arguments)

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            answer = _ask_raw(self._connection, "call", method, arguments)
        except _GONE as exc:
            raise StateStoreNotAvailableError(f"store {self._name}: its lane went away while it was read ({exc})") from exc
        if answer[0] == "value":
            return answer[1]
        self._iterating = not answer[2]
        if method == "get_versions":
            return iter(list(self._entries(answer)))
        return PeekingIterator(self._entries(answer), self._name)

    def _entries(self, answer: tuple[Any, ...]) -> Iterator[Any]:
        _, part, ended = answer
        while True:
            yield from part
            if ended:
                return
            try:
                self._connection.send(("next",))
                _, part, ended = _receive(self._connection)
            except _GONE as exc:
                raise StateStoreNotAvailableError(f"store {self._name}: its lane went away while it was read ({exc})") from exc
            self._iterating = not ended


def _ask(connection: Connection[Any, Any], *request: Any) -> Any:
    return _ask_raw(connection, *request)[1]


def _ask_raw(connection: Connection[Any, Any], *request: Any) -> tuple[Any, ...]:
    connection.send(request)
    answer = _receive(connection)
    if answer[0] == "error":
        raise answer[1] if isinstance(answer[1], BaseException) else InvalidStateStoreError(str(answer[1]))
    return answer


def _receive(connection: Connection[Any, Any]) -> tuple[Any, ...]:
    if not connection.poll(_ANSWER_SECONDS):
        raise EOFError(f"no answer for {_ANSWER_SECONDS:.0f} s")
    answer: tuple[Any, ...] = connection.recv()
    return answer


def connect(address: Address, key: bytes) -> Connection[Any, Any]:
    """A connection to a listener that knows the key, as we do."""
    if isinstance(address, str):
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(_CONNECT_SECONDS)
        try:
            connected.connect(address)
        except OSError:
            connected.close()
            raise
    else:
        connected = socket.create_connection(address, _CONNECT_SECONDS)
    connected.settimeout(None)
    connection: Connection[Any, Any] = Connection(connected.detach())
    try:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    except BaseException:
        with contextlib.suppress(OSError):
            connection.close()
        raise
    return connection


def _as_is(topic: str, value: Any) -> Any:
    return value
