"""Adds stream threads for executors that arrive while the application runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.client.stream_threads import StreamThreads
from penstock.spark.plan import Plan

_log = logging.getLogger(__name__)


class ThreadGrowth:
    """Adds stream threads when Spark has more task slots than ever before, unless `num.stream.threads` is set.

    Threads are not removed when executors leave, so that their replacements find as many threads as before.
    """

    def __init__(self, add: Callable[[], object], threads: StreamThreads, plan: Plan, is_set: bool) -> None:
        self._add, self._threads, self._plan, self._is_set = add, threads, plan, is_set
        self._most: int | None = None

    def take(self, slots: int) -> None:
        """Handle the current number of task slots. Called on the event loop's thread, so threads are added on another one."""
        alive = len(self._threads.alive())
        if self._most is None:  # the initial threads match the initial executors
            self._most = max(slots, 1) if self._is_set else alive
        more, self._most = slots - self._most, max(slots, self._most)
        if more <= 0:
            return
        if self._is_set:
            _log.info(
                "Executors were added, with slots for %d more stream threads. The application keeps %d, because "
                "num.stream.threads is set",
                *(more, alive),
            )
        elif (missing := min(more, len(self._plan.tasks()) - alive)) > 0:
            _log.info("Executors were added, with slots for %d more stream threads. Adding %d", more, missing)
            threading.Thread(target=self._grow, args=(missing,), name="penstock-thread-growth", daemon=True).start()

    def _grow(self, count: int) -> None:
        for _ in range(count):
            self._add()
