"""A short pause of all threads during a rebalance, so that no commit is refused for its generation."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import monotonic
from penstock.kafka.membership import Stopped

# The other members notice a rebalance with their next heartbeat, after up to a second. Slower ones are not waited for.
_SECONDS = 1.5


class RebalancePause:
    """Under exactly-once, running batches end before the member joins, and none begins until the new generation.

    The broker refuses a commit under an old generation, and its tasks must be opened again. The pause is short: if a batch or
    the join takes long, threads continue, and late commits are refused.

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
        """Start the pause: the member joins."""
        self._until = self._now() + _SECONDS
        return self

    def end(self) -> None:
        """End the pause: the new generation has begun."""
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        """True if no batch may begin."""
        return self._now() < self._until

    def is_set(self) -> bool:
        """Return True if this member may join: no thread processes, or the pause is over."""
        return self._idle.is_set() or not self.is_on
