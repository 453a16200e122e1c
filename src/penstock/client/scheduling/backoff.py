"""Retry delays: the number of failures in a row, their start, and the next attempt."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import monotonic

_SHORTEST, _LONGEST, _DOUBLINGS = 0.05, 5.0, 7
# A failure after this time starts a new row.
_FORGOTTEN = 30.0


class Backoff:
    """The row of failures of one stream thread, or of one kind of request.

    >>> now = [0.0]
    >>> backoff = Backoff(lambda: now[0])
    >>> [backoff.failed() for _ in range(3)], backoff.rests
    ([0.1, 0.2, 0.4], True)
    >>> now[0] = 7.5
    >>> backoff.failing_seconds, backoff.rests
    (7.5, False)
    >>> backoff.went_well(); backoff.failing_seconds
    0.0
    """

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._failures = 0
        self._since = 0.0
        self.rests_until = 0.0

    def failed(self) -> float:
        """Record a failure. Returns the delay until the next attempt, which doubles each time."""
        now = self._now()
        if now > self.rests_until + _FORGOTTEN:
            self._failures = 0
        self._failures += 1
        if self._failures == 1:
            self._since = now
        rest: float = min(_LONGEST, _SHORTEST * 2 ** min(self._failures, _DOUBLINGS))
        self.rests_until = max(self.rests_until, now + rest)
        return rest

    def rest(self, seconds: float) -> None:
        """Delay the next attempt by at least this time."""
        self.rests_until = max(self.rests_until, self._now() + seconds)

    def went_well(self) -> None:
        """End the row of failures."""
        self._failures = 0

    @property
    def failing_seconds(self) -> float:
        """The duration of the current row of failures."""
        return self._now() - self._since if self._failures else 0.0

    @property
    def rests(self) -> bool:
        """True before the next attempt is due."""
        return self._now() < self.rests_until
