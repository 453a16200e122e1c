"""What penstock asks of the executors of a cluster; run by `test_internals.py` with the cluster's settings."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from penstock.spark import internals


def where(rows: Iterator[Any]) -> Iterable[bytes]:
    list(rows)
    yield internals.own_executor_id().encode()


def main() -> None:
    builder = SparkSession.builder.appName("internals").config("spark.locality.wait", "60s")
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    deadline = time.monotonic() + 120
    while len(internals.executors_with_hosts(context)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    hosts = internals.executors_with_hosts(context)
    places = {executor: internals.executor_place(host, executor) for executor, host in hosts.items()}
    placed = internals.yielding_bytes(internals.placed_rows(context, [places[i] for i in "1010"]), where).collect()
    environment = internals.worker_environment(context, {"PENSTOCK_TEST": "lane"})
    lanes = []
    for executor in "010":
        java_rdd = internals.bytes_in_environment(internals.placed_rows(context, [places[executor]]), where, environment)
        lanes.append(internals.first_of_partition(context, java_rdd, 0).decode())
    told = {
        "executors": hosts,
        "placed": [executor.decode() for executor in placed],
        "lanes": lanes,
        "version": pyspark.__version__,
    }
    session.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
