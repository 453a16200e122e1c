"""How much of the machine a process takes: CPU and memory, as Linux tells it."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Seconds of CPU since the start of a process, and bytes of memory that it has now."""

    seconds: float
    memory: int


def own_usage() -> Usage:
    """Of this process; its memory is 0 where the system does not tell.

    >>> own_usage().seconds > 0
    True
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        pages = 0
    return Usage(own.ru_utime + own.ru_stime, pages * _PAGE)


def usage_of(pid: int) -> Usage | None:
    """Of another process on this machine; None where it is gone, or the system does not tell."""
    try:
        # The second field is the name of the program, in brackets, and may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return Usage((int(fields[11]) + int(fields[12])) / _TICK, int(fields[21]) * _PAGE)
    except (OSError, ValueError, IndexError):
        return None
