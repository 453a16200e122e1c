"""The lag of the application on its input topics, for the API, the console, notebooks and `penstock top`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.client.scheduling.task_manager import TaskManager
from penstock.clock import monotonic
from penstock.ids import TaskId, TopicPartition

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0
# Readers wait at most this long for brokers that do not answer.
_WAIT_SECONDS = 1.0

ReadOffsets = Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]


class PartitionLag(NamedTuple):
    """The end of a partition and its committed offset. Before the first commit the read position stands for it."""

    committed: int
    end: int

    @property
    def lag(self) -> int:
        """The number of records to process, as in `kafka-consumer-groups`.

        >>> PartitionLag(committed=7, end=10).lag
        3
        """
        return max(0, self.end - self.committed)


class Lags(NamedTuple):
    """The lags of this instance's input partitions and tasks."""

    partitions: Mapping[TopicPartition, PartitionLag]
    tasks: Mapping[TaskId, int]

    @property
    def total(self) -> int:
        """The number of records to process."""
        return sum(found.lag for found in self.partitions.values())


class InputLags:
    """Asks the brokers for committed offsets and log ends, at most once a second for any number of readers."""

    def __init__(self, tasks: TaskManager, committed: ReadOffsets, ends: ReadOffsets) -> None:
        self._tasks, self._committed, self._ends = tasks, committed, ends
        self._known, self._known_at = Lags({}, {}), 0.0
        self._asking: threading.Thread | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Lags:
        """Return the current lags. If brokers do not answer within a second, return the last known lags."""
        with self._lock:
            asking = self._asking
            if asking is None and monotonic() - self._known_at > _EVERY_SECONDS:
                asking = self._asking = threading.Thread(target=self._ask, name="penstock-lags", daemon=True)
                asking.start()
        if asking is not None:
            asking.join(_WAIT_SECONDS)
        return self._known

    def _ask(self) -> None:
        try:
            self._known = self._read()
        except Exception as exc:  # noqa: BLE001 - the last known lags are shown while brokers are unavailable or tasks move
            _log.debug("Reading the lag failed: %s", exc)
        with self._lock:
            self._known_at = monotonic()
            self._asking = None

    def _read(self) -> Lags:
        inputs = {task: self._tasks.plan.inputs(task) for task in self._tasks.owners}
        partitions = [partition for some in inputs.values() for partition in some]
        if not partitions:
            return Lags({}, {})
        at = {**self._tasks.positions(), **self._committed(partitions)}
        ends = self._ends(partitions)
        found = {p: PartitionLag(at[p], ends[p]) for p in partitions if p in at and p in ends}
        known = {task: [found[p].lag for p in some if p in found] for task, some in inputs.items()}
        return Lags(found, {task: sum(some) for task, some in known.items() if some})
