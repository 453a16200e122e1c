"""Dynamic allocation: Spark adds executors while tasks wait, and removes idle ones.

By default Spark gives an application no executor until it has tasks, and a stream thread gets no tasks without an executor.
So the first executor is requested here. After that Spark decides: threads that wait for a core make it add executors, threads
move to them, and executors without a working thread are removed after `spark.dynamicAllocation.executorIdleTimeout`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from pyspark import SparkContext

from penstock.errors import ConfigError
from penstock.spark.internals import request_one_executor

_PREFIX: Final = "spark.dynamicAllocation."
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}

# Spark's value for "no limit".
_NO_LIMIT: Final = 2**31 - 1

_ASK_EVERY: Final = 60.0
_asked: WeakKeyDictionary[SparkContext, float] = WeakKeyDictionary()

# The limit without another one: one driver serves all threads.
MOST_THREADS: Final = 32


@dataclass(frozen=True)
class Allocation:
    """The settings `spark.dynamicAllocation.*`. `most` is None without a limit."""

    most: int | None
    idle_seconds: float
    keeps_shuffles: bool

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Allocation | None:
        """Return the settings of a session with dynamic allocation, or None without it, as with a local master."""

        def is_set(key: str, default: str = "false") -> bool:
            return settings.get(key, default).strip().lower() == "true"

        if not is_set(f"{_PREFIX}enabled") or re.fullmatch(r"local(\[.*\])?", settings.get("spark.master", "")):
            return None
        most = count_of(settings, f"{_PREFIX}maxExecutors", _NO_LIMIT)
        keeps = (
            is_set(f"{_PREFIX}shuffleTracking.enabled", "true")
            or is_set("spark.shuffle.service.enabled")
            or (is_set("spark.decommission.enabled") and is_set("spark.storage.decommission.shuffleBlocks.enabled", "true"))
            or "spark.shuffle.sort.io.plugin.class" in settings  # shuffles are stored elsewhere
        )
        return cls(None if most >= _NO_LIMIT else most, seconds_of(settings.get(f"{_PREFIX}executorIdleTimeout", "60s")), keeps)

    def threads(self, slots: int, tasks: int) -> int:
        """Return the number of threads without `num.stream.threads`: one for each task, at most the slots of all executors.

        >>> Allocation(4, 60, True).threads(slots=2, tasks=20), Allocation(4, 60, True).threads(slots=2, tasks=5)
        (8, 5)
        >>> Allocation(None, 60, True).threads(slots=2, tasks=200)
        32
        """
        return max(1, min(tasks, MOST_THREADS if self.most is None else self.most * slots))


def request_executor(spark: SparkContext) -> None:
    """Request an executor at most once a minute, because each request adds one.

    Repeated requests are needed: Spark cancels a request when it currently needs fewer executors.
    """
    now = time.monotonic()
    if now - _asked.get(spark, -_ASK_EVERY) >= _ASK_EVERY:
        _asked[spark] = now
        request_one_executor(spark)


def cores_of(settings: Mapping[str, str]) -> int | None:
    """Return the number of cores of an executor, or of a local master. None if only the cluster knows it.

    >>> cores_of({"spark.master": "local[4]"}), cores_of({"spark.master": "yarn", "spark.executor.cores": "2"})
    (4, 2)
    >>> cores_of({"spark.master": "spark://host:7077"})
    """
    master = settings.get("spark.master", "")
    if local := re.fullmatch(r"local(?:\[([^,\]]*).*\])?", master):
        wanted = (local.group(1) or "1").strip()
        return (os.cpu_count() or 1) if wanted == "*" else int(wanted)
    if cluster := re.fullmatch(r"local-cluster\[[^,]*,\s*(\d+).*\]", master):
        return int(cluster.group(1))
    if settings.get("spark.executor.cores"):
        return count_of(settings, "spark.executor.cores", 1)
    return None if master.startswith("spark://") else 1 if master else None


def count_of(settings: Mapping[str, str], key: str, default: int) -> int:
    """Return a setting as an integer. Raises ConfigError for other text.

    >>> count_of({"spark.task.cpus": "two"}, "spark.task.cpus", 1)
    Traceback (most recent call last):
    penstock.errors.ConfigError: spark.task.cpus=two is not a whole number: set it to one, or unset it
    """
    text = settings.get(key, str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{key}={text} is not a whole number: set it to one, or unset it") from None


def seconds_of(text: str) -> float:
    """Convert a time in Spark's notation to seconds.

    >>> seconds_of("60s"), seconds_of("500ms"), seconds_of("2min"), seconds_of("3")
    (60.0, 0.5, 120.0, 3.0)
    """
    found = re.fullmatch(r"\s*(-?\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found.group(2) not in _UNITS:
        return float("inf")  # Spark reports the error
    return int(found.group(1)) * _UNITS[found.group(2)]
