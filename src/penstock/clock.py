"""Wall-clock time, injected everywhere so that tests move it by hand."""

from __future__ import annotations

import time
from typing import Protocol


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
