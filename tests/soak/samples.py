"""What is recorded each minute, and whether it is flat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.harness.processes import Processes, folder_megabytes, megabytes, open_files, threads

Sample = Mapping[str, float]

# What a thing may grow by though nothing leaks: in its own unit, beside a tenth.
_ALLOWED: Mapping[str, float] = {
    "driver MB": 30,
    "JVM MB": 60,
    "workers MB": 80,
    "largest worker MB": 20,
    "open files of driver": 20,
    "open files of JVM": 30,
    "threads of driver": 15,
    "threads of JVM": 20,
    "local folder MB": 20,
    "event log MB": 1,
    "state folder MB": 20,
}
_ENOUGH = 15


def take(roots: Sequence[int], folders: Iterable[Path], elsewhere: Sequence[int] = ()) -> dict[str, float]:
    """A sample of the instances with these processes and folders; `elsewhere` are other ancestors of workers (executors)."""
    found = Processes.now()
    jvms, workers = found.jvms(roots), found.workers([*roots, *elsewhere])
    sizes = [megabytes(worker) for worker in workers]
    folders = list(folders)
    return {
        "driver MB": sum(map(megabytes, roots)),
        "JVM MB": sum(map(megabytes, jvms)),
        "workers MB": sum(sizes),
        "largest worker MB": max(sizes, default=0.0),
        "workers": len(workers),
        "open files of driver": sum(map(open_files, roots)),
        "open files of JVM": sum(map(open_files, jvms)),
        "threads of driver": sum(map(threads, roots)),
        "threads of JVM": sum(map(threads, jvms)),
        "local folder MB": sum(folder_megabytes(folder / "local") for folder in folders),
        "event log MB": sum(folder_megabytes(folder / "events") for folder in folders),
        "state folder MB": sum(folder_megabytes(folder / "state") for folder in folders),
    }


def growth(samples: Sequence[Sample], enough: int = _ENOUGH) -> list[str]:
    """What has grown: where the median of the last third is above that of the one before by a tenth and some more.

    The first third is not looked at: caches fill and code is compiled. Fewer than `enough` samples tell nothing.
    """
    if len(samples) < enough:
        return []
    third = len(samples) // 3
    grown = []
    for name, allowed in _ALLOWED.items():
        before, after = (
            median(sample.get(name, 0.0) for sample in part) for part in (samples[third : 2 * third], samples[2 * third :])
        )
        if after > before * 1.1 + allowed:
            grown.append(f"{name}: {before:.0f} -> {after:.0f}")
    return grown
