"""How somebody who fails now and then goes on: how often in a row, since when, and when to try again."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import monotonic

_SHORTEST, _LONGEST, _DOUBLINGS = 0.05, 5.0, 7
# A failure that lies so far back does not belong to the next one.
_FORGOTTEN = 30.0


class Backoff:
    """The failures in a row of one stream thread, or of one kind of request.

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
        """Once more; the next try comes after a rest, longer each time. Returns how long it is."""
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
        """Try again no sooner than this."""
        self.rests_until = max(self.rests_until, self._now() + seconds)

    def went_well(self) -> None:
        """What comes next counts from the beginning."""
        self._failures = 0

    @property
    def failing_seconds(self) -> float:
        """For how long it has failed without once going well."""
        return self._now() - self._since if self._failures else 0.0

    @property
    def rests(self) -> bool:
        """Whether it is too early to try again."""
        return self._now() < self.rests_until
