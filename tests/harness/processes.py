"""The processes under an instance, as Linux shows them: which they are, and what they need."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_DAEMONS = ((b"-m", b"pyspark_penstock.daemon"), (b"-m", b"pyspark.daemon"))


@dataclass(frozen=True)
class Processes:
    """All processes at a moment: parents and arguments by id."""

    parents: dict[int, int] = field(default_factory=dict)
    arguments: dict[int, list[bytes]] = field(default_factory=dict)

    @staticmethod
    def now() -> Processes:
        """Those that run now."""
        found = Processes()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
                    arguments = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                except (OSError, IndexError):
                    continue  # it ended while we looked
                found.parents[int(entry)] = parent
                found.arguments[int(entry)] = arguments
        return found

    def below(self, roots: Iterable[int]) -> list[int]:
        """Everything that has one of these for an ancestor, in the order of ids."""
        inside, grown = set(roots), True
        given = set(inside)
        while grown:
            more = {pid for pid, parent in self.parents.items() if parent in inside} - inside
            inside |= more
            grown = bool(more)
        return sorted(inside - given)

    def jvms(self, roots: Iterable[int]) -> list[int]:
        """Spark's JVMs among them, and not the scripts that become one."""
        return [pid for pid in self.below(roots) if b"org.apache.spark.deploy.SparkSubmit" in self.arguments[pid]]

    def workers(self, roots: Iterable[int]) -> list[int]:
        """Spark's Python workers among them: the children of its daemons."""
        return [pid for pid in self.below(roots) if self._is_daemon(pid) and self._is_daemon(self.parents[pid])]

    def _is_daemon(self, pid: int) -> bool:
        return any(pair in _DAEMONS for pair in pairwise(self.arguments.get(pid, [])))


def megabytes(pid: int) -> float:
    """What a process has in memory and shares with nobody, as far as Linux tells; 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError):
        pass
    return 0.0


def open_files(pid: int) -> int:
    """How many files and sockets a process has open."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def threads(pid: int) -> int:
    """How many threads a process has."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def folder_megabytes(folder: Path) -> float:
    """What the files of a folder take, whatever goes or comes meanwhile."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                continue
    return total / 2**20
