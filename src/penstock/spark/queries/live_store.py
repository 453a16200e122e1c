"""An in-memory store read between two batches, when it has exactly the committed state.

A range is read in parts, and the batch lock is released between them. A part delays processing by a fraction of a millisecond
at first (a page of the query server), and by a few milliseconds later. Each part shows one commit; a later part shows the
same commit or a later one (`state/parts.py`). The lease's position is a lower bound of the first part.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock.errors import InvalidStateStoreError, PenstockError, StateStoreNotAvailableError
from penstock.ids import TaskId
from penstock.runtime.queries.partition import Lease
from penstock.spark.worker.active_tasks import ActiveTasks
from penstock.state.parts import PartReader
from penstock.state.queries import answer_custom_query
from penstock.state.reading import bytes_below_cache, part_reader

FIRST_PART, LARGEST_PART = 1_024, 8_192
"""The numbers of entries read under one lock: a page at first, then twice as many each time."""

_TURN_SECONDS = 30.0

R = TypeVar("R")


class LiveStore(Lease):
    """The open store of a task, leased to one reader."""

    def __init__(self, tasks: ActiveTasks, task_id: TaskId, store_name: str, turn: threading.Lock) -> None:
        self._find = tasks.live_store
        self._task_id, self._name, self._turn = task_id, store_name, turn
        self.store = self
        self.position = self._between_turns(lambda: (self._find(task_id, store_name), tasks.position_of(task_id))[1])

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the store of bytes. Returns a value, or an iterator that reads further parts."""

        def read() -> Any:
            store = self._find(self._task_id, self._name)
            below = bytes_below_cache(store)
            parts = part_reader(below, method, arguments)
            if parts is not None:
                return self._entries(parts, store)
            found = getattr(below, method)(*arguments)
            return iter(list(found)) if isinstance(found, Iterator) else found  # a store class of the user's

        return self._between_turns(read)

    def query(self, told: Any, bound: str, collect_execution_info: bool) -> Any:
        """Return the answer of the store's own `query` as plain data, None if it has no such method."""

        def ask() -> Any:
            below = bytes_below_cache(self._find(self._task_id, self._name))
            try:
                return answer_custom_query(below, told, bound, collect_execution_info)
            except PenstockError:
                raise
            except Exception as exc:
                text = f"{type(below).__name__} failed to handle query {told[1]}: {exc!r}\n{traceback.format_exc()}"
                raise InvalidStateStoreError(text) from exc

        return self._between_turns(ask)

    def _entries(self, parts: PartReader, store: Any) -> Iterator[Any]:
        def read() -> Any:
            if self._find(self._task_id, self._name) is not store:
                raise StateStoreNotAvailableError(
                    f"store {self._name} of task {self._task_id} was reopened during the read. Try again"
                )
            return parts.read(budget)

        budget = FIRST_PART
        while True:
            part = self._between_turns(read)
            yield from part.entries
            if part.ended:
                return
            if part.to_do is not None:
                part.to_do()
            else:
                budget = min(2 * budget, LARGEST_PART)

    def _between_turns(self, read: Callable[[], R]) -> R:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise StateStoreNotAvailableError(
                f"store {self._name} of task {self._task_id} is in memory, and its batch has not ended within "
                f"{_TURN_SECONDS:.0f} s. Try again"
            )
        try:
            return read()
        finally:
            self._turn.release()
