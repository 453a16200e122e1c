"""A JVM that is no session's, sessions after the end of their JVM, and those whose JVM is killed; run by `test_internals.py`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.spark import internals


def main() -> None:
    gateway = internals.start_gateway()
    jars = internals.resolve_jars(gateway, "javax.inject:javax.inject:1", sys.argv[1])
    internals.end_gateway(gateway, 60)
    internals.end_gateway(gateway, 60)
    ended = gateway.proc.poll() is not None

    SparkContext("local[1]", "first").stop()
    first = internals.running_gateway()
    internals.forget_gateway(first)
    internals.end_gateway(first, 60)
    spark = SparkContext("local[1]", "second")
    second = internals.active_context() is spark and internals.running_gateway() is not first
    lives = not internals.has_ended(spark) and internals.jvm_pid(spark) == internals.running_gateway().proc.pid
    process = internals.running_gateway().proc
    process.kill()
    process.wait()
    killed = lives and internals.is_cut_off(spark) and internals.has_ended(spark)

    forgotten = internals.forget_lost_jvm() and internals.active_context() is None
    session = SparkSession.builder.master("local[1]").getOrCreate()
    anew = session.range(7).count() == 7 and internals.has_ended(spark) and not internals.was_stopped(spark)
    gateway = internals.running_gateway()
    process, gateway.proc = gateway.proc, None  # as where spark-submit has started it
    lives = not internals.is_cut_off(session.sparkContext)
    process.kill()
    process.wait()
    found = {
        "jars": [Path(jar).name for jar in jars],
        "ended": ended,
        "second": second,
        "killed": killed,
        "anew": forgotten and anew,
        "cut off": lives and internals.is_cut_off(session.sparkContext),
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # what pyspark would do at its exit needs the JVM


if __name__ == "__main__":
    main()
