"""Counting of what stores do not take because it is too old."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.state.store import StateStoreContext

_log = logging.getLogger(__name__)


class ExpiredRecords:
    """The count of expired puts of one store; each also goes to the task's dropped-records metric.

    >>> expired = ExpiredRecords()
    >>> expired.record("Skipping record for expired segment.")
    >>> expired.count
    1
    """

    __slots__ = ("_record_dropped", "count")

    def __init__(self) -> None:
        self.count = 0
        self._record_dropped: Callable[[str], None] | None = None

    def bind(self, context: StateStoreContext) -> None:
        """Use the counter of a task; a context without one only has the warning."""
        self._record_dropped = context.record_dropped

    def record(self, reason: str) -> None:
        """Count one."""
        self.count += 1
        if self._record_dropped is not None:
            self._record_dropped(reason)
        else:
            _log.warning(reason)
