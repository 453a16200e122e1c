"""Hosts of Spark's tasks, for the driver and the workers."""

from __future__ import annotations

from pyspark import SparkContext

from penstock.spark.internals import split_place


def is_local(spark: SparkContext) -> bool:
    """Return True if tasks run in the driver's own JVM."""
    return bool(spark.master == "local" or spark.master.startswith("local["))


def host_of(executor: str) -> str:
    """Return the host of an executor.

    >>> host_of("executor_10.0.0.7_3")
    '10.0.0.7'
    """
    return split_place(executor)[0]
