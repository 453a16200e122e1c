"""A store in a thread's memory, read beside its task: between turns, when it holds what is committed and nothing else.

A range is read in parts, and the turn is let go between them, so that no reader holds up processing for longer than a part
takes: a fraction of a millisecond for the first, which is a whole page of the query server and more, some milliseconds for the
later ones of a reader who wants everything. A part is of one commit, a later part of that commit or a later one
(`state/parts.py`). The position of the lease is what the first part reflects at least.
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
"""How many entries are looked at while a turn is held up: as a page has at first, then twice as many each time."""

_TURN_SECONDS = 30.0

R = TypeVar("R")


class LiveStore(Lease):
    """The open store of a task, as a lease for one reader."""

    def __init__(self, tasks: ActiveTasks, task_id: TaskId, store_name: str, turn: threading.Lock) -> None:
        self._find = tasks.live_store
        self._task_id, self._name, self._turn = task_id, store_name, turn
        self.store = self
        self.position = self._between_turns(lambda: (self._find(task_id, store_name), tasks.position_of(task_id))[1])

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """What a method of the store of bytes gives: a value, or an iterator that reads on when it is asked for more."""

        def read() -> Any:
            store = self._find(self._task_id, self._name)
            below = bytes_below_cache(store)
            parts = part_reader(below, method, arguments)
            if parts is not None:
                return self._entries(parts, store)
            found = getattr(below, method)(*arguments)
            return iter(list(found)) if isinstance(found, Iterator) else found  # a store of the user's own kind

        return self._between_turns(read)

    def query(self, told: Any, bound: str, collect_execution_info: bool) -> Any:
        """What the store's own `query` answers, as plain data; None where it has none."""

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
                    f"store {self._name} of task {self._task_id} was opened anew while it was read; ask again"
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
                f"store {self._name} of task {self._task_id} is in memory and its turn has not ended for {_TURN_SECONDS:.0f} s"
            )
        try:
            return read()
        finally:
            self._turn.release()
