"""Placement of threads: the available executors, the executor of each thread, and Spark's preferred locations."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pyspark import RDD, SparkContext

from penstock.errors import StreamsError
from penstock.spark.driver.allocation import Allocation, request_executor
from penstock.spark.hosts import is_local
from penstock.spark.internals import (
    anchor,
    executor_place,
    known_executors,
    placed_rows,
)

_log = logging.getLogger(__name__)

# Executors register one by one. If none registers for this time, the list is complete,
_SETTLED_SECONDS = 2.0
# unless spark.executor.instances expects more: then this is the limit.
_MISSING_SECONDS = 30.0
# Interval of the warning that no executor has registered.
_SAY_SECONDS = 30.0

_STOPPED = (
    "The SparkSession was stopped while the application runs on it, or its JVM has ended. Nothing can be processed any more. "
    "Close the application before its session, and start it again on a running one"
)


class NoExecutorsError(StreamsError):
    """The cluster currently has no executor for the application."""


class SessionStoppedError(StreamsError):
    """The session of a running application was stopped."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or _STOPPED)


class Executors(NamedTuple):
    """The executors as preferred locations: the usable ones, and the reasons why others are not."""

    usable: list[str]
    refused: Mapping[str, str] = MappingProxyType({})

    def explain(self) -> str:
        """Return why no executor is usable, or nothing if there are none.

        >>> Executors([], {"executor_10.0.0.7_3": "is being decommissioned"}).explain()
        ': executor_10.0.0.7_3 is being decommissioned'
        """
        told = "; ".join(f"{place} {why}" for place, why in sorted(self.refused.items()))
        return f": {told}" if told else ""


def known_places(spark: SparkContext) -> Executors:
    """Return the current executors; none in local mode.

    This list decides where threads start, how they are spread, and when they move.
    """
    if is_local(spark):
        return Executors([])
    known = {executor_place(found.host, id_): found for id_, found in known_executors(spark).items()}
    refused = {place: found.refusal for place, found in known.items() if found.refusal}
    return Executors(sorted(known.keys() - refused.keys()), refused)


def executors(spark: SparkContext) -> list[str]:
    """Return the usable executors as preferred locations; none in local mode."""
    return known_places(spark).usable


def wait_for_executors(spark: SparkContext, timeout: float, check: Callable[[], None] = lambda: None) -> list[str]:
    """Wait until the executors of a new session have registered, and return them.

    With dynamic allocation only the first executor is requested; the load requests the others. `check` raises to end the
    wait.
    """
    if is_local(spark):
        return []
    allocation = Allocation.of(dict(spark.getConf().getAll()))
    expected = int(spark.getConf().get("spark.executor.instances", "0") or 0)
    patience = _MISSING_SECONDS if expected else _SETTLED_SECONDS
    deadline, found, since = time.monotonic() + timeout, known_places(spark), time.monotonic()
    say_at = since + _SAY_SECONDS
    while True:
        now = time.monotonic()
        if found.usable and (now - since > patience or len(found.usable) == expected):
            return found.usable
        if allocation is not None and not found.usable:
            request_executor(spark)
        if now > deadline:
            raise NoExecutorsError(
                f"No executor of {spark.master} has registered within {timeout:.0f} s. Check that the cluster is up and has "
                "cores and memory to spare for this application"
                + ("" if allocation is None else ", and that spark.dynamicAllocation.maxExecutors allows for one")
                + found.explain()
            )
        if not found.usable and now > say_at:
            say_at = now + _SAY_SECONDS
            _log.warning(
                "%s has provided no executor yet. Waiting %.0f s more. Check that it has free cores and memory%s",
                *(spark.master, deadline - now, found.explain()),
            )
        check()
        time.sleep(0.05)
        there = known_places(spark)
        if there != found:
            found, since = there, now


def choose_places(
    before: Sequence[str | None], there: Sequence[str], taken: Mapping[str, int] = MappingProxyType({})
) -> list[str | None]:
    """Return an executor for each thread: its own if that exists, else the one with the fewest threads.

    A thread moves to another executor only if its own has at least two threads more. `taken` counts other applications'
    threads.

    >>> choose_places([None, None, None], ["a", "b"])
    ['a', 'b', 'a']
    >>> choose_places(["a", "b", "a"], ["b", "c"])
    ['c', 'b', 'b']
    >>> choose_places([None], ["a", "b"], {"a": 1})
    ['b']
    """
    if not there:
        return [None] * len(before)
    threads = Counter({place: taken.get(place, 0) for place in there})
    threads.update(place for place in before if place is not None and place in threads)
    chosen: list[str | None] = []
    for place in before:
        if place not in threads:
            place = min(there, key=threads.__getitem__)
            threads[place] += 1
        chosen.append(place)
    while True:
        own = [place for place in there if place in chosen]
        most, least = max(own, key=threads.__getitem__, default=there[0]), min(there, key=threads.__getitem__)
        if threads[most] - threads[least] < 2:
            return chosen
        chosen[len(chosen) - 1 - chosen[::-1].index(most)] = least
        threads[most] -= 1
        threads[least] += 1


def located(spark: SparkContext, place: str | None) -> RDD[int]:
    """Return an RDD with one row at a preferred place. None leaves the place to Spark."""
    return spark.parallelize([0], 1) if place is None else placed_rows(spark, [place])


def anchored(spark: SparkContext, place: str) -> RDD[int] | None:
    """Return a row that is stored at its place and lost with it, or None if it cannot be stored.

    With dynamic allocation nothing is stored: Spark never removes an executor that stores something.
    """
    if Allocation.of(dict(spark.getConf().getAll())) is not None:
        return None
    rows = placed_rows(spark, [place])
    return rows if anchor(spark, rows, place) else None
