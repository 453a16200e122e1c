"""Reports the restoration of state to the log, the listener, the console and the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import methodcaller

from penstock.client.callbacks import Callbacks
from penstock.client.listeners import StateRestoreListener
from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import RestoreProgress

_log = logging.getLogger(__name__)

Hear = Callable[[RestoreProgress, str], None]


class RestoreEvents:
    """Called for every step of a restore: `start`, `batch`, and `end` with the last batch, or `done` after it.

    A restore that stops before the store is complete ends with `suspended`. Each progress counts the records of its step; the
    listener gets the total at the end.
    """

    def __init__(
        self,
        callbacks: Callbacks,
        listener: Callable[[], StateRestoreListener | None],
        thread_of: Callable[[TaskId], str | None],
        *others: Hear,
    ) -> None:
        self._callbacks = callbacks
        self._listener = listener
        self._thread_of = thread_of
        self._others = others
        self._totals: dict[TopicPartition, int] = {}

    def __call__(self, progress: RestoreProgress, what: str) -> None:
        for hear in self._others:
            hear(progress, what)
        if what != "batch":
            self._log(progress, what)
        partition = progress.partition
        if what == "start":
            self._totals[partition] = 0
            self._tell(progress, "on_restore_start", progress.start, progress.end)
            return
        if what != "done" and progress.restored:
            self._totals[partition] = self._totals.get(partition, 0) + progress.restored
            self._tell(progress, "on_batch_restored", progress.position, progress.restored)
        if what != "batch":
            total = self._totals.pop(partition, 0)
            self._tell(progress, "on_restore_suspended" if what == "suspended" else "on_restore_end", total)

    def _tell(self, progress: RestoreProgress, method: str, *offsets: int) -> None:
        """Call a method of the listener, if there is one."""
        listener = self._listener()
        if listener is not None:
            name = f"{method} of the restore listener, called for store {progress.store} and {progress.partition},"
            call = methodcaller(method, progress.partition, progress.store, *offsets)
            self._callbacks.call(name, call, listener, task=progress.task_id)

    def _log(self, progress: RestoreProgress, what: str) -> None:
        where = (self._thread_of(progress.task_id), progress.task_id, progress.store, progress.partition)
        if what == "start":
            text = "stream-thread [%s] task [%s] restoring store %s from %s, offsets %d to %d"
            _log.info(text, *where, progress.start, progress.end)
        elif what == "suspended":
            text = "stream-thread [%s] task [%s] stopped restoring store %s from %s at offset %d of %d"
            _log.info(text, *where, progress.position, progress.end)
        else:
            _log.info("stream-thread [%s] task [%s] restored store %s from %s up to offset %d", *where, progress.position)
