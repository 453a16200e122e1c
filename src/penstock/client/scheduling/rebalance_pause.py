"""A short pause of all threads while the group rebalances, so that no commit is refused for its generation."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import monotonic
from penstock.kafka.membership import Stopped

# The others hear of a rebalance with their next heartbeat, a second later; whoever takes longer is not waited for.
_SECONDS = 1.5


class RebalancePause:
    """Under exactly-once: batches that run are waited for before joining, and none begins until the new generation is there.

    A commit under an old generation is refused, and its tasks have to be opened again. If a batch or the join takes long,
    threads go on, and the broker refuses what comes too late: a pause is never longer than a moment.

    >>> import threading
    >>> idle = threading.Event()
    >>> hold = RebalancePause(idle)
    >>> hold.is_on, hold.begin().is_set(), hold.is_on
    (False, False, True)
    >>> idle.set(); hold.is_set()
    True
    """

    def __init__(self, idle: Stopped, now: Callable[[], float] = monotonic) -> None:
        self._idle, self._now = idle, now
        self._until = 0.0

    def begin(self) -> RebalancePause:
        """The group joins."""
        self._until = self._now() + _SECONDS
        return self

    def end(self) -> None:
        """The new generation is there."""
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether no batch is to begin now."""
        return self._now() < self._until

    def is_set(self) -> bool:
        """Whether this member may join: no thread processes, or it takes too long."""
        return self._idle.is_set() or not self.is_on
