"""A line now and then for whoever reads the log: what has been done since the last one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from penstock.client.turns import Turn
from penstock.spark.messages import LaneAnswer

_log = logging.getLogger(__name__)


class Summary:
    """Counts turns, and logs their sum every `log.summary.interval.ms`; a negative interval keeps quiet."""

    def __init__(self, interval_ms: int, now: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval_ms / 1000
        self._now = now
        self._since = now()
        self._turns = self._records = self._written = self._committed = 0

    def account(self, turn: Turn, answers: Mapping[int, LaneAnswer]) -> None:
        """Add a turn."""
        self._turns += 1
        self._records += sum(answer.records for answer in answers.values())
        self._written += sum(answer.produced for answer in answers.values())
        self._committed += sum(len(work) for work in turn.work.values())
        self.tell()

    def tell(self) -> None:
        """Log the sum if it is time; nothing is said where nothing was done."""
        passed = self._now() - self._since
        if self._interval < 0 or passed < self._interval:
            return
        if self._turns:
            _log.info(
                "processed %d records in %d turns, wrote %d records and committed %d tasks in the last %.0f s",
                self._records,
                self._turns,
                self._written,
                self._committed,
                passed,
            )
        self._since = self._now()
        self._turns = self._records = self._written = self._committed = 0
