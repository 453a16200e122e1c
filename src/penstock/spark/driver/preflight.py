"""Checks of Spark's settings before the start: errors for settings that cannot work, warnings for bad ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import ConfigError
from penstock.spark.driver.allocation import Allocation, cores_of, count_of, seconds_of
from penstock.spark.driver.core_sharing import POOL

# The supported versions of pyspark: at least the first, below the second. The same as in pyproject.toml.
SUPPORTED: Final = ((4, 0), (5, 0))

# A thread with tasks runs an empty residency after this many idle seconds (`client/scheduling/thread_driver.py`).
_SIGN_OF_LIFE: Final = 40.0
_SHORTEST_LOCALITY_WAIT: Final = 10.0
# Measured: the address space of a worker with a small topology and one store.
_ADDRESS_SPACE: Final = "2 to 4 GB"


@dataclass(frozen=True)
class Surroundings:
    """Spark before the start: the settings of the existing session, or of the one that will be made."""

    settings: Mapping[str, str]
    pyspark_version: str
    spark_version: str | None = None
    session_class: str | None = None
    """The class of a session that is not one of pyspark's classic ones."""
    is_remote: bool = False
    is_stopped: bool = False

    def is_set(self, key: str, default: bool = False) -> bool:
        return self.settings.get(key, str(default)).strip().lower() == "true"


def check_surroundings(found: Surroundings) -> list[str]:
    """Return warnings. Raises ConfigError for settings that cannot work.

    >>> check_surroundings(Surroundings({"spark.python.worker.reuse": "false"}, "4.3.0"))
    Traceback (most recent call last):
    penstock.errors.ConfigError: spark.python.worker.reuse=false ends a Python worker after each task, and with it the stores ...
    """
    errors = list(_errors(found))
    if errors:
        raise ConfigError("\n".join(errors))
    return list(_warnings(found))


def check_task_cpus(cpus: int, cores: Collection[int]) -> None:
    """Raise ConfigError if no executor has enough cores for one task.

    >>> check_task_cpus(2, [1, 1])
    Traceback (most recent call last):
    penstock.errors.ConfigError: spark.task.cpus=2 is more than the executors have (1 core each), so no stream thread can ever ...
    """
    if cores and cpus > max(cores):
        most = max(cores)
        raise ConfigError(
            f"spark.task.cpus={cpus} is more than the executors have ({most} core{'' if most == 1 else 's'} each), so no stream "
            f"thread can ever run: set it to {most} or less, or give the executors more cores (spark.executor.cores)"
        )


def _errors(found: Surroundings) -> Iterator[str]:
    yield from _unfit_session(found)
    yield from _unfit_version(found)
    if not found.is_set("spark.python.worker.reuse", True):
        yield (
            "spark.python.worker.reuse=false ends a Python worker after each task, and with it the stores that a "
            "stream thread keeps "
            "open there: set it to true, which is Spark's default"
        )
    if not found.is_set("spark.python.use.daemon", True):
        yield (
            "spark.python.use.daemon=false makes a Python worker for one task alone, and a stream thread keeps its stores open "
            "in one from task to task: set it to true, which is Spark's default"
        )
    if _speculates(found) and "spark.speculation.task.duration.threshold" in found.settings:
        yield (
            "spark.speculation=true with spark.speculation.task.duration.threshold makes Spark run a residency of a "
            "stream thread "
            "a second time, which is refused and fails the residency: set spark.speculation to false, or unset the "
            "threshold"
        )
    yield from _unfit_cores(found)
    yield from _unfit_allocation(found)


def _unfit_session(found: Surroundings) -> Iterator[str]:
    settings = found.settings
    if found.session_class is not None and ".connect." not in found.session_class:
        yield f"spark is a {found.session_class}, but penstock runs on a pyspark.sql.SparkSession: pass one, or none"
    elif found.session_class or found.is_remote or "spark.remote" in settings or settings.get("spark.api.mode") == "connect":
        yield (
            "a Spark Connect session cannot run RDD jobs in this process, and stream threads are such jobs: make a "
            "classic session "
            "(spark.api.mode=classic, without spark.remote and SPARK_REMOTE) in the driver of the cluster"
        )
    if found.is_stopped:
        yield "the SparkSession has been stopped, so nothing can run on it: pass a running one, or none"


def _unfit_version(found: Surroundings) -> Iterator[str]:
    oldest, newest = SUPPORTED
    if not oldest <= _version(found.pyspark_version) < newest:
        yield (
            f"pyspark {found.pyspark_version} is not supported: install a version from {_text(oldest)} to below {_text(newest)} "
            "(pip install penstock-streams chooses one)"
        )


def _unfit_cores(found: Surroundings) -> Iterator[str]:
    try:
        cpus, cores = count_of(found.settings, "spark.task.cpus", 1), cores_of(found.settings)
    except ConfigError as exc:
        yield str(exc)
        return
    if cores is not None and cpus > cores:
        what = found.settings.get("spark.master", "") if _is_local(found) else f"an executor of {cores} cores"
        yield (
            f"spark.task.cpus={cpus} is more than {what} has, so no stream thread can ever run: set it to {cores} or less, or "
            f"spark.{'master to local[' + str(cpus) + ']' if _is_local(found) else 'executor.cores to ' + str(cpus)}"
        )


def _unfit_allocation(found: Surroundings) -> Iterator[str]:
    allocation = Allocation.of(found.settings)
    if allocation is not None and not allocation.keeps_shuffles:
        yield (
            "spark.dynamicAllocation.enabled=true needs storage for the shuffles of removed executors, or Spark does "
            "not start: set "
            "spark.dynamicAllocation.shuffleTracking.enabled to true, or spark.shuffle.service.enabled if the cluster has this "
            "service"
        )


def _warnings(found: Surroundings) -> Iterator[str]:
    settings = found.settings
    if found.spark_version is not None and _version(found.spark_version) != _version(found.pyspark_version):
        yield (
            f"Spark is {found.spark_version} and pyspark {found.pyspark_version}: they work together only in the same "
            "version; install the pyspark of the cluster"
        )
    if _speculates(found):
        yield (
            "spark.speculation=true starts a second attempt of a stream thread that runs for long, which costs a core and gains "
            "nothing: set it to false"
        )
    if settings.get(POOL) and settings.get("spark.scheduler.mode", "FIFO").upper() != "FAIR":
        yield (
            f"{POOL}={settings[POOL]} has no effect, since Spark has pools only with spark.scheduler.mode=FAIR: set that on the "
            "session"
        )
    if memory := settings.get("spark.executor.pyspark.memory"):
        yield (
            f"spark.executor.pyspark.memory={memory} limits the address space of each Python worker. Beside its memory "
            "that has shared libraries, "
            f"files and the stacks of its threads: {_ADDRESS_SPACE} for a stream thread. Unset it, and "
            "limit the memory of executors by spark.executor.memoryOverhead"
        )
    allocation = Allocation.of(settings)
    if allocation is not None and allocation.idle_seconds <= _SIGN_OF_LIFE:
        yield (
            f"spark.dynamicAllocation.executorIdleTimeout={settings['spark.dynamicAllocation.executorIdleTimeout']} removes "
            "executors with open state when they are idle for so long, and their tasks open elsewhere: set it to "
            f"more than {_SIGN_OF_LIFE:.0f}s, after which a stream thread runs an empty residency"
        )
    wait = settings.get("spark.locality.wait.process", settings.get("spark.locality.wait", "3s"))
    if not _is_local(found) and settings.get("spark.master") and seconds_of(wait) < _SHORTEST_LOCALITY_WAIT:
        yield (
            f"spark.locality.wait={wait} lets Spark run a stream thread on an executor without its state as "
            "soon as its own has been busy for so long, and the residency is repeated: set it to 60s"
        )


def _speculates(found: Surroundings) -> bool:
    return found.is_set("spark.speculation") and not _is_local(found)  # Spark never speculates with a local master


def _is_local(found: Surroundings) -> bool:
    return re.fullmatch(r"local(\[.*\])?", found.settings.get("spark.master", "")) is not None


def _version(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version.

    >>> _version("4.3.0.dev1")
    (4, 3)
    """
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
