"""Lanes, seen from the driver: sticky Python workers, each on the executor it was given.

Spark hands a Python task to any idle worker of the same environment. A lane's functions are built with an environment of their
own, which differs from the session's in one variable, so Spark gives each lane its own worker and always that one, and nobody
else. At most one job runs in a lane at a time.

What a lane's functions yield is bytes, and comes to the driver as they are: Spark only tells where they begin and end. So do the
blobs of a shuffle from worker to worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

from penstock.spark.internals import (
    bytes_in_environment,
    first_of_partition,
    keyed_bytes,
    shuffled_by_key,
    worker_environment,
    yielding_bytes,
)
from penstock.spark.placement import located
from penstock.spark.scheduling import POOL

_LANE = "PENSTOCK_LANE"

T = TypeVar("T")
LaneFunction = Callable[[Iterator[Any]], Iterable[bytes]]


def shuffled_bytes(
    rows: RDD[Any], function: Callable[[Iterator[Any]], Iterable[tuple[int, bytes]]], partitions: int
) -> RDD[bytes]:
    """Have `function` give bytes and the partition they go to: `partitionBy` without pickling pairs of them."""
    return shuffled_by_key(yielding_bytes(rows, partial(_with_keys, function)), partitions)


def _with_keys(function: Callable[[Iterator[Any]], Iterable[tuple[int, bytes]]], rows: Iterator[Any]) -> Iterator[bytes]:
    for partition, data in function(rows):
        yield from keyed_bytes(partition, data)


class Lane:
    """One lane of an application: a thread of the driver that submits jobs, and the worker that runs them."""

    def __init__(self, spark: SparkContext, name: str, executor: str | None = None, pool: str | None = None) -> None:
        self.name = name
        self._pool = pool
        self._spark = spark
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.last_used = time.monotonic()
        self._environment = worker_environment(spark, {_LANE: name})
        self.move(executor)

    def move(self, executor: str | None) -> None:
        """Run the jobs to come on another executor; what is open on the old one stays there."""
        self.executor = executor
        self._base = located(self._spark, executor)

    def submit(self, function: LaneFunction, description: str, read: Callable[[bytes], T]) -> Future[T]:
        """Run `function` as one Spark job of one task in this lane's worker; the future holds the first thing it yields, read."""
        return self._thread.submit(self._run, self._base, function, None, description, read)

    def submit_partition(
        self, rows: RDD[bytes], partition: int, function: LaneFunction, description: str, read: Callable[[bytes], T]
    ) -> Future[T]:
        """The same over one partition of an RDD; the map stage of a shuffle that lanes share runs once."""
        # The product with the lane's one row has the same partitions, and prefers the lane's place; no Python comes in between.
        placed = rows if self.executor is None else self._base.cartesian(rows)
        unplaced = function if self.executor is None else partial(_without_place, function)
        return self._thread.submit(self._run, placed, unplaced, partition, description, read)

    def close(self) -> None:
        """Take no more jobs; one that runs goes on to its end."""
        self._thread.shutdown(wait=False)

    def _run(
        self, rows: RDD[Any], function: LaneFunction, partition: int | None, description: str, read: Callable[[bytes], T]
    ) -> T:
        self.last_used = time.monotonic()
        self._spark.setJobGroup(self.name, description)
        self._spark.setLocalProperty(POOL, self._pool)  # None: the session's default
        java_rdd = bytes_in_environment(rows, function, self._environment)
        return read(first_of_partition(self._spark, java_rdd, partition))


def _without_place(function: LaneFunction, rows: Iterator[tuple[int, Any]]) -> Iterable[bytes]:
    return function(row for _, row in rows)
