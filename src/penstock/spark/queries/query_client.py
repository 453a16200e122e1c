"""The client of a thread's query listener, for state in the thread's process or on its host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.query.custom_queries import decode_result, encode_query
from penstock.query.position import Position, PositionBound
from penstock.query.queries import Query
from penstock.query.result import QueryResult
from penstock.runtime.queries.deadline import current
from penstock.runtime.queries.opening import CustomStore, ReadableStore
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.spark.messages import Application, ThreadReport
from penstock.spark.queries.channel import GONE, Address, Channel, answer_of, connect
from penstock.spark.queries.entry_forms import entries_of
from penstock.spark.queries.query_listener import CODEC
from penstock.spark.reports import read_report
from penstock.spark.worker.current_work import Doing
from penstock.state.engines.key_value_bytes import prefix_bytes
from penstock.state.iterators import PeekingIterator
from penstock.state.store import StateStore, StateStoreContext

_ANSWER_SECONDS = 60.0
_DOING_SECONDS = 2.0
_CLOSE_SECONDS = 10.0


class WorkerPartition(StorePartition):
    """One partition of a store, read through its stream thread.

    `address()` returns the thread's current address. `on_lost` is called when the thread does not answer: its worker may have
    ended, and must be started again.
    """

    def __init__(
        self,
        store: ReadableStore | CustomStore,
        task_id: TaskId,
        application: Application,
        address: Callable[[], Address | None],
        on_lost: Callable[[], None] = lambda: None,
        patience: float = 10.0,
    ) -> None:
        super().__init__(store.name, task_id)
        self._store = store
        self._application = application
        self._address = address
        self._on_lost = on_lost
        self._patience = patience
        self._free: list[tuple[Address, Channel]] = []
        self._lock = threading.Lock()

    def lease(self) -> Lease:
        """Lease the committed state."""
        deadline, lost = time.monotonic() + self._patience, False
        while True:
            try:
                return self._lease_from(self._address())
            except StateStoreNotAvailableError:  # the store is opening
                if time.monotonic() > deadline:
                    raise
            except GONE as exc:
                if time.monotonic() > deadline:
                    raise StateStoreNotAvailableError(
                        f"partition {self.partition} of store {self.store_name} cannot be read: its stream thread does "
                        "not answer "
                        f"({exc}). Try again"
                    ) from exc
                if not lost:
                    self._on_lost()
                    lost = True
            current().check()
            time.sleep(0.05)

    def close(self) -> None:
        with self._lock:
            free, self._free = self._free, []
        for _, channel in free:
            channel.close()

    def give_back(self, address: Address, channel: Channel) -> None:
        """Keep a lease's connection for the next lease."""
        with self._lock:
            self._free.append((address, channel))

    def _lease_from(self, address: Address | None) -> Lease:
        if address is None:
            raise OSError("the store is not open")
        kept = self._kept(address)
        if kept is not None:
            try:
                return self._lease_over(address, kept)
            except GONE:
                pass  # the listener closed the idle connection for another reader, so the thread may be alive
        application = self._application
        return self._lease_over(address, connect(address, application.query_key, CODEC, application.identity))

    def _lease_over(self, address: Address, channel: Channel) -> Lease:
        try:
            position = _ask(channel, "lease", self.task_id, self.store_name, self._store.on_disk)[1]
        except StateStoreNotAvailableError:
            self.give_back(address, channel)
            raise
        except BaseException:
            channel.close()
            raise
        return _WorkerLease(self, self._store, address, channel, Position.from_json(position))

    def _kept(self, address: Address) -> Channel | None:
        with self._lock:
            while self._free:
                known, channel = self._free.pop()
                if known == address and channel.is_quiet:
                    return channel
                channel.close()
        return None


class _WorkerLease(Lease):
    def __init__(
        self, owner: WorkerPartition, store: ReadableStore | CustomStore, address: Address, channel: Channel, position: Position
    ) -> None:
        self._owner: WorkerPartition | None = owner
        self._address = address
        self._channel = channel
        self.position = position
        self._on_disk = store.on_disk
        self.engine = WorkerEngine(store.name, channel)
        self.store = store.open_typed(self.engine, owner.task_id, Path())

    def ask(self, query: Query[Any], bound: PositionBound, execution_info: bool) -> QueryResult[Any] | None:
        """Return the answer of the store's own `query`, which runs in its thread."""
        if self._on_disk:
            return None
        told = self.engine.ask(encode_query(query), bound.position.to_json(), execution_info)
        return None if told is None else decode_result(told)

    def close(self) -> None:
        """Release the lease."""
        owner, self._owner = self._owner, None
        if owner is None:
            return
        try:
            if self.engine.is_idle:
                self._channel.send("release")
                owner.give_back(self._address, self._channel)
                return
        except GONE:
            pass
        self._channel.close()  # an iterator is open: the thread releases it when the connection ends


class WorkerEngine(StateStore):
    """A store of bytes whose methods run in a stream thread."""

    def __init__(self, name: str, channel: Channel) -> None:
        self._name = name
        self._channel = channel
        self._iterating = False

    name = property(lambda self: self._name)
    persistent = property(lambda self: True)
    is_open = property(lambda self: True)

    @property
    def is_idle(self) -> bool:
        """True if no iterator has entries left."""
        return not self._iterating

    def init(self, context: StateStoreContext, root: StateStore) -> None:
        """Do nothing: the store is open in its thread."""

    def close(self) -> None:
        """Do nothing: the store stays open in its thread."""

    def ask(self, query: Any, bound: str, execution_info: bool) -> Any:
        """Return the answer of the store's own `query` as plain data."""
        return self._asked("query", query, bound, execution_info)[1]

    def prefix_scan(self, prefix: Any, prefix_serializer: Any) -> Any:
        return self._call("prefix_scan", prefix_bytes(prefix, prefix_serializer))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._call(method, *arguments)

    def _call(self, method: str, *arguments: Any) -> Any:
        answer = self._asked("call", method, arguments)
        if answer[0] == "value":
            return answer[1]
        entries = self._entries(answer)
        return iter(list(entries)) if method == "get_versions" else PeekingIterator(entries, self._name)

    def _entries(self, answer: tuple[Any, ...]) -> Iterator[Any]:
        _, form, part, ended = answer
        self._iterating = not ended
        return self._following(entries_of(form, part), ended)

    def _following(self, part: list[Any], ended: bool) -> Iterator[Any]:
        while True:
            yield from part
            if ended:
                return
            _, form, told, ended = self._asked("next")
            part, self._iterating = entries_of(form, told), not ended

    def _asked(self, *request: Any) -> tuple[Any, ...]:
        try:
            return _ask(self._channel, *request)
        except StateStoreNotAvailableError:
            self._iterating = True  # as below: the reader gave up
            raise
        except GONE as exc:
            self._iterating = True  # an answer may still arrive for the old request
            raise StateStoreNotAvailableError(
                f"store {self._name} cannot be read further: its stream thread disconnected ({exc}). Try again"
            ) from exc


def ask_doing(address: Address, application: Application, seconds: float = _DOING_SECONDS) -> Doing | None:
    """Return a thread's current work, or None without an answer in time: it has died, or native code holds the interpreter
    lock.
    """
    try:
        return Doing.told(_ask_once(address, application, seconds, "doing"))
    except (*GONE, PenstockError):
        return None


def ask_to_leave(address: Address, application: Application, residency: int, seconds: float = _DOING_SECONDS) -> bool:
    """Ask a thread to end its residency. Returns False without an answer: the residency then ends at its time limit."""
    try:
        _ask_once(address, application, seconds, "leave", residency)
    except (*GONE, PenstockError):
        return False
    return True


def ask_to_close(address: Address, application: Application) -> bool:
    """Ask a worker to close its stream thread after the residency. Returns False if it did not confirm in time."""
    try:
        _ask_once(address, application, _CLOSE_SECONDS, "close")
    except (*GONE, PenstockError):
        return False
    return True


def ask_report(
    address: Address, application: Application, residency: int, seconds: float = _DOING_SECONDS
) -> ThreadReport | None:
    """Return a resident thread's report since the last one. None without an answer, or if the residency is over."""
    try:
        said = _ask_once(address, application, seconds, "report", residency)
        return read_report(said) if said else None
    except (*GONE, PenstockError):
        return None


def _ask_once(address: Address, application: Application, seconds: float, *request: Any) -> Any:
    """Send a request on a new connection and return the value of the answer."""
    deadline = time.monotonic() + seconds
    with connect(address, application.query_key, CODEC, application.identity, seconds) as channel:
        channel.send(*request)
        answer = answer_of(channel.receive(max(0.001, deadline - time.monotonic())))
    if len(answer) != 2:
        raise StateStoreNotAvailableError(
            f"a thread at {address} answered {request[0]!r} with {len(answer)} values instead of one"
        )
    return answer[1]


def _ask(channel: Channel, *request: Any) -> tuple[Any, ...]:
    """Send a request and return the answer while the reader waits. If the reader gives up, the channel is closed."""
    channel.send(*request)
    deadline, until = current(), time.monotonic() + _ANSWER_SECONDS
    try:
        while (left := until - time.monotonic()) > 0 and not channel.has_come(deadline.step(left)):
            deadline.check()
    except StateStoreNotAvailableError:
        channel.close()
        raise
    return answer_of(channel.receive(max(0.001, left)))
