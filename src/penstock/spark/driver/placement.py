"""Where threads run: the executors there are, which of them a thread gets, and how Spark is told."""

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

# Executors register one after the other. When none has come for this long, those that are there are all there will be ...
_SETTLED_SECONDS = 2.0
# ... unless spark.executor.instances tells that there should be more: then the missing ones are waited for longer.
_MISSING_SECONDS = 30.0
# So often it is said that there is none yet.
_SAY_SECONDS = 30.0

_STOPPED = (
    "the SparkSession was stopped while the application runs on it, or its JVM has ended: nothing can be processed any more. "
    "Close the application before its session, and start it anew on one that runs"
)


class NoExecutorsError(StreamsError):
    """The cluster gives the application no executor now."""


class SessionStoppedError(StreamsError):
    """The session was stopped under the application: nothing can run any more."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or _STOPPED)


class Executors(NamedTuple):
    """The executors there are, as Spark writes them in preferred locations: those that run tasks, and why others do not."""

    usable: list[str]
    refused: Mapping[str, str] = MappingProxyType({})

    def explain(self) -> str:
        """Why there are executors and none can be used; empty if there are none.

        >>> Executors([], {"executor_10.0.0.7_3": "is being decommissioned"}).explain()
        ': executor_10.0.0.7_3 is being decommissioned'
        """
        told = "; ".join(f"{place} {why}" for place, why in sorted(self.refused.items()))
        return f": {told}" if told else ""


def known_places(spark: SparkContext) -> Executors:
    """The executors there are now; none in local mode.

    This list alone decides where threads begin, how they are spread, and where they move.
    """
    if is_local(spark):
        return Executors([])
    known = {executor_place(found.host, id_): found for id_, found in known_executors(spark).items()}
    refused = {place: found.refusal for place, found in known.items() if found.refusal}
    return Executors(sorted(known.keys() - refused.keys()), refused)


def executors(spark: SparkContext) -> list[str]:
    """The executors that run tasks now, as Spark writes them in preferred locations; empty in local mode."""
    return known_places(spark).usable


def wait_for_executors(spark: SparkContext, timeout: float, check: Callable[[], None] = lambda: None) -> list[str]:
    """The executors of a session, which has none yet when it was just made; returns when no more of them come.

    With dynamic allocation one is asked for where there is none; the load asks for the others. `check` raises to end the waiting.
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
                f"no executor of {spark.master} has registered within {timeout:.0f} s: check that the cluster is up and has "
                "cores and memory to spare for this application"
                + ("" if allocation is None else ", and that spark.dynamicAllocation.maxExecutors allows for one")
                + found.explain()
            )
        if not found.usable and now > say_at:
            say_at = now + _SAY_SECONDS
            _log.warning(
                "%s has given no executor yet, and is waited for %.0f s more: check that it has cores and memory to spare%s",
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
    """An executor for each thread: the one it has if that is there, else the one with the fewest threads.

    Threads move to a newcomer only if another executor has two more than it. `taken` counts the threads of other applications.

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
    """One row in one partition that prefers a place; None leaves it to Spark."""
    return spark.parallelize([0], 1) if place is None else placed_rows(spark, [place])


def anchored(spark: SparkContext, place: str) -> RDD[int] | None:
    """A row that is kept at its place, and lost with it; None where that cannot be.

    With dynamic allocation nothing is kept: an executor that has something is never let go.
    """
    if Allocation.of(dict(spark.getConf().getAll())) is not None:
        return None
    rows = placed_rows(spark, [place])
    return rows if anchor(spark, rows, place) else None
