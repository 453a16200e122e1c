"""How many records are read at a time where state is built: between two steps somebody else may have a turn."""

from __future__ import annotations

from typing import Final

RESTORE: Final = 50_000
"""Of a changelog, for a task that waits for its state: the next records are fetched while these are put into the store."""

MUCH_TO_RESTORE: Final = 200_000
"""Where there is more than this of a changelog, who waits is told before it begins."""

GLOBAL_TABLE: Final = 50_000
"""Of a global topic, before a turn that reads it: the thread's other tasks wait meanwhile."""

STANDBY: Final = 20_000
"""Of all changelogs that an updater follows, together: it takes a moment, as somebody may wait for a replica to be let go."""

_SMALLEST_OF_STANDBY: Final = 1_000


def of_standby(changelogs: int) -> int:
    """Each changelog's share of a step.

    >>> of_standby(1), of_standby(4), of_standby(1_000)
    (20000, 5000, 1000)
    """
    return max(_SMALLEST_OF_STANDBY, STANDBY // max(1, changelogs))
