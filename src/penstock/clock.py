"""The clocks of the client: all of its modules read the time here, so that they agree, and tests move time in one place.

Components that compute with time take a clock as an argument. The others call `monotonic` and `wall_time`.
"""

from __future__ import annotations

import time
from typing import Protocol


def monotonic() -> float:
    """Return the machine's monotonic time in seconds.

    This is the default of every argument that takes a monotonic clock. It reads `time.monotonic` at each call: a test that
    replaces the clock of `time` replaces it for all components, also for those that exist already.
    """
    return time.monotonic()


def wall_time() -> float:
    """Return the machine's wall-clock time in seconds since the epoch, read at each call like `monotonic`."""
    return time.time()


class Clock(Protocol):
    """Tells wall-clock time in milliseconds since the epoch."""

    def now_ms(self) -> int:
        """The current wall-clock time."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """The current wall-clock time of this machine."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that only moves when it is told to.

    >>> clock = ManualClock(5)
    >>> clock.advance(10)
    >>> clock.now_ms()
    15
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """The time this clock was last set to."""
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward; a negative step is refused."""
        if milliseconds < 0:
            raise ValueError(f"a clock cannot go back: {milliseconds} ms")
        self._now_ms += milliseconds
