"""Log a summary line for each stream thread at an interval, in Kafka Streams' words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.clock import monotonic
from penstock.spark.messages import BatchReport

_log = logging.getLogger(__name__)


@dataclass
class _Done:
    records: int = 0
    punctuators: int = 0
    polls: int = 0
    tasks: int = 0


class ThreadSummary:
    """Sums up batches and logs every `log.summary.interval.ms`, never if that is zero or less."""

    def __init__(self, interval_ms: int, name_of: Callable[[int], str | None], now: Callable[[], float] = monotonic) -> None:
        self._interval = interval_ms / 1000
        self._name_of = name_of
        self._now = now
        self._last = now()
        self._done: dict[int, _Done] = {}

    def batch_done(self, thread: int, batch: BatchReport) -> None:
        done = self._done.setdefault(thread, _Done())
        done.records += batch.processed
        done.punctuators += batch.punctuated
        done.polls += 1
        done.tasks += batch.tasks

    def tell(self, threads: Mapping[int, object]) -> None:
        """Log a line for each of these threads if the interval has passed."""
        elapsed = self._now() - self._last
        if self._interval <= 0 or elapsed < self._interval:
            return
        for thread in threads:
            name, done = self._name_of(thread), self._done.get(thread, _Done())
            if name is not None:
                _log.info(
                    "stream-thread [%s] Processed %d total records, ran %d punctuators, polled %d times and committed %d "
                    "total tasks since the last update %dms ago",
                    *(name, done.records, done.punctuators, done.polls, done.tasks, int(elapsed * 1000)),
                )
        self._done.clear()
        self._last = self._now()
