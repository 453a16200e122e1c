"""What the processes of one side use: CPU seconds and memory, from /proc.

A side is started in a session of its own, and every process it starts stays in it: that is how they are found.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessStat:
    """The part of /proc/PID/stat that the bench reads."""

    pid: int
    command: str
    session: int
    cpu_seconds: float  # its own and that of the children it has waited for
    own_seconds: float


def parse_stat(text: str) -> ProcessStat:
    """One line of /proc/PID/stat; the command may hold blanks and brackets.

    >>> parse_stat("7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 100 50 25 25 20 0").cpu_seconds * _TICK
    200.0
    """
    head, tail = text.rsplit(")", 1)
    pid, command = head.split(" (", 1)
    fields = tail.split()
    ticks = [int(field) for field in fields[11:15]]
    return ProcessStat(int(pid), command, int(fields[3]), sum(ticks) / _TICK, sum(ticks[:2]) / _TICK)


def session_of(leader: int) -> list[ProcessStat]:
    """The processes that live in the session of `leader`."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                stat = parse_stat((entry / "stat").read_text())
            except (OSError, ValueError):
                continue  # gone meanwhile
            if stat.session == leader:
                found.append(stat)
    return found


def cpu_seconds(leader: int) -> float:
    """CPU seconds of all processes of a session so far."""
    return sum(stat.cpu_seconds for stat in session_of(leader))


def cpu_between(before: Iterable[ProcessStat], now: Iterable[ProcessStat]) -> float:
    """CPU seconds that a session has used in between.

    What one has used that has ended since is counted by who has waited for it. Where nobody has, all that is known is what the
    others have used.
    """
    then, there = {stat.pid: stat for stat in before}, list(now)
    total = sum(stat.cpu_seconds for stat in there) - sum(stat.cpu_seconds for stat in then.values())
    return max(total, sum(stat.own_seconds - (then[stat.pid].own_seconds if stat.pid in then else 0.0) for stat in there))


def memory_mb(leader: int) -> dict[str, float]:
    """Proportional (shared pages divided among their users) and resident memory of all processes of a session."""
    total = {"Pss": 0, "Rss": 0}
    for stat in session_of(leader):
        try:
            lines = (_PROC / str(stat.pid) / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name in total:
                total[name] += int(rest.split()[0])
    return {"pss": total["Pss"] / 1024, "rss": total["Rss"] / 1024}


def end_session(leader: int) -> None:
    """End what is left of a session that this process started."""
    for stat in session_of(leader):
        try:
            os.kill(stat.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@dataclass
class MemoryWatch:
    """Samples a session's memory once a second while it is entered."""

    leader: int
    samples: list[dict[str, float]] = field(default_factory=list)

    def __enter__(self) -> MemoryWatch:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def peak_pss(self) -> float:
        return max((sample["pss"] for sample in self.samples), default=0.0)

    @property
    def peak_rss(self) -> float:
        return max((sample["rss"] for sample in self.samples), default=0.0)

    def _watch(self) -> None:
        while not self._end.wait(1.0):
            self.samples.append(memory_mb(self.leader))


@dataclass
class CpuWatch:
    """CPU seconds a session used between `__enter__` and `__exit__`, and how long that was."""

    leader: int
    cpu: float = 0.0
    seconds: float = 0.0

    def __enter__(self) -> CpuWatch:
        self._before, self._started = session_of(self.leader), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        now, self.seconds = session_of(self.leader), time.monotonic() - self._started
        self.cpu = cpu_between(self._before, now)

    @property
    def share(self) -> float:
        """CPU seconds per second."""
        return self.cpu / self.seconds if self.seconds else 0.0
