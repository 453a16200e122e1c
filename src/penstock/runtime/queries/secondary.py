"""Readers of stores on disk: RocksDB opened as a secondary, beside the process that writes.

The writer puts a batch, its changelog position and its input position into RocksDB in one atomic write, after Kafka has
committed. A secondary replays such writes one by one, so whatever it has caught up to is the state after some commit. Only a
secondary that nobody reads from is caught up: a reader has it for itself until the lease ends, so that everything it reads,
with many gets or iterators, is of one and the same commit. Readers never touch the writer or its process.

Whether there is anything to catch up with is told by the files: the folder's time changes when a file comes or goes, the size
of the write-ahead log with every commit. Asking costs 5 µs, catching up 1 to 2 ms.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.errors import InvalidStateStoreError, ProcessorStateError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.query.position import Position
from penstock.runtime.queries.deadline import current
from penstock.runtime.queries.partition import Lease, StorePartition
from penstock.state.capabilities import innermost, rocksdb_of

# Each costs memory for a copy of the writer's write buffer, and the open files of the store.
_MAX_HANDLES = 8
_WAIT_SECONDS = 10.0
_NEAR_BYTES = 256 * 1024

Signature = tuple[int, ...]


class SecondaryPartition(StorePartition):
    """One partition of a store on disk, with a pool of secondaries; `open_store(log_folder)` makes and opens one."""

    def __init__(
        self, store_name: str, task_id: TaskId, folder: Path, log_folder: Path, open_store: Callable[[Path], Any]
    ) -> None:
        super().__init__(store_name, task_id)
        self._folder = folder
        self.path = str(folder)
        self._log_folder = log_folder
        self._open_store = open_store
        self._free: list[_Handle] = []
        self._count = 0
        self._number = 0
        self._closed = False
        self._changed = threading.Condition()

    def lease(self) -> Lease:
        """A view of what is committed now."""
        handle = self._take()
        try:
            if handle is None:
                handle = self._open()
            elif not handle.refresh():
                handle.close_store()
                handle = self._open()
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            raise
        return handle

    def lease_at_once(self) -> Lease | None:
        """A view where one is free and has little to catch up with: that takes a millisecond or two."""
        with self._changed:
            if self._closed or not self._free or not self._free[-1].is_near:
                return None
            handle = self._free.pop()
        try:
            if handle.refresh():
                return handle
        except BaseException:
            self._drop(handle)
            raise
        self._drop(handle)
        return None

    def _drop(self, handle: _Handle) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify()
        handle.close_store()

    def close(self) -> None:
        """Close all secondaries; those that are leased are closed when they come back."""
        with self._changed:
            self._closed = True
            free, self._free = self._free, []
            self._count -= len(free)
        for handle in free:
            handle.close_store()

    def _take(self) -> _Handle | None:
        """A free handle, or None and the permission to open one."""
        until, deadline = time.monotonic() + _WAIT_SECONDS, current()
        with self._changed:
            while True:
                deadline.check()
                if self._closed:
                    raise InvalidStateStoreError(f"the application is closed: store {self.store_name} can no longer be read")
                if self._free:
                    return self._free.pop()
                if self._count < _MAX_HANDLES:
                    self._count += 1
                    return None
                left = until - time.monotonic()
                if left <= 0:
                    raise StateStoreNotAvailableError(
                        f"{_MAX_HANDLES} iterators are open on partition {self.partition} of store {self.store_name}: close "
                        "them (they are context managers) before more are opened"
                    )
                self._changed.wait(deadline.step(left))

    def _open(self) -> _Handle:
        with self._changed:
            self._number += 1
            log_folder = self._log_folder / f"{self.task_id}-{self.store_name}-{self._number}"
        if not (self._folder / "CURRENT").exists():
            raise StateStoreNotAvailableError(
                f"partition {self.partition} of store {self.store_name} is being opened for the first time; ask again later"
            )
        log_folder.mkdir(parents=True, exist_ok=True)
        signature = _signature(self.path, None)
        try:
            store = self._open_store(log_folder)
        except ProcessorStateError as exc:
            raise StateStoreNotAvailableError(
                f"partition {self.partition} of store {self.store_name} cannot be read now: {exc}; ask again later"
            ) from exc
        return _Handle(self, store, log_folder, signature)

    def give_back(self, handle: _Handle) -> None:
        """Called by a lease that ends."""
        with self._changed:
            if not self._closed:
                self._free.append(handle)
                self._changed.notify()
                return
            self._count -= 1
        handle.close_store()


class _Handle(Lease):
    """One secondary, and what the files looked like when it was caught up."""

    def __init__(self, owner: SecondaryPartition, store: Any, log_folder: Path, signature: Signature | None) -> None:
        self._owner = owner
        self.store = store
        self._log_folder = log_folder
        self._signature = signature
        self._engine = innermost(store)
        self._db = rocksdb_of(store)
        self._leased = True
        self.position = self._position()

    def refresh(self) -> bool:
        """Catch up if there is anything; False where the store has to be opened anew."""
        self._leased = True
        before = self._signature
        now = _signature(self._owner.path, before)
        if now == before and now is not None:
            return True
        if now is None or before is None or now[0] != before[0]:
            return False  # the folder was deleted, or is another one
        try:
            self._engine.catch_up()
        except ProcessorStateError:
            return False
        self._signature = now
        self.position = self._position()
        return True

    @property
    def is_near(self) -> bool:
        """Whether it is only a few commits behind."""
        before = self._signature
        now = _signature(self._owner.path, before)
        return now == before or (
            before is not None and now is not None and now[2] == before[2] and now[3] - before[3] < _NEAR_BYTES
        )

    def close(self) -> None:
        """Give the view back."""
        if self._leased:
            self._leased = False
            self._owner.give_back(self)

    def close_store(self) -> None:
        """Close the secondary."""
        try:
            self.store.close()
        finally:
            shutil.rmtree(self._log_folder, ignore_errors=True)

    def _position(self) -> Position:
        text = None if self._db is None else self._db.position
        return Position() if text is None else Position.from_json(text)


def _signature(folder: str, before: Signature | None) -> Signature | None:
    """What changes with every commit: which folder it is, when files came or went, the newest log and its size."""
    try:
        found = os.stat(folder)
        if before is not None and before[:2] == (found.st_ino, found.st_mtime_ns):
            newest = before[2]
        else:
            newest = max((int(name[:-4]) for name in os.listdir(folder) if name.endswith(".log")), default=-1)
        size = os.stat(f"{folder}/{newest:06d}.log").st_size if newest >= 0 else 0
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, newest, size
