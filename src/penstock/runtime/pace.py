"""How many records of a turn are taken at once as a batch, so that the turn ends in time whatever they cost."""

from __future__ import annotations

import math

from penstock.clock import monotonic

# Before anything is known of what a record costs: few enough for one that takes milliseconds.
_FIRST = 500
# What has more in it than this tells what a record costs; with less it may be mostly what any part costs.
_TELLING = 200


class Pace:
    """Learns what a record of a task costs, from one part of a turn to the next.

    A part costs something in any case, and an aggregate writes its rows with each: so all that is left is taken at once where it
    is likely to be done in time.
    """

    def __init__(self) -> None:
        self._seconds_each: float | None = None
        self._began = 0.0

    def next_part(self, left: int, until: float) -> int:
        """How many of the records that are left to take now, at least one."""
        self._began = now = monotonic()
        if until == math.inf:
            return left
        if self._seconds_each is None:
            return min(left, _FIRST)
        room = until - now
        if left * self._seconds_each <= room:
            return left
        # With half of the room a wrong guess is seen in time.
        return max(1, min(left, max(_FIRST, int(0.5 * room / self._seconds_each))))

    def done(self, records: int) -> None:
        """A part has been processed."""
        if records >= _TELLING:
            self._seconds_each = (monotonic() - self._began) / records
