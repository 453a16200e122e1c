"""Spark's daemon: all tasks of a JVM wait until one that is started has said where it listens."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from penstock.spark.worker.worker_process import VARIABLE
from pyspark_penstock import daemon
from tests.harness.waiting import LIMIT

# What is imported when the daemon begins to listen.
LOADED = """
import json, sys
import pyspark.daemon
import pyspark_penstock.daemon
pyspark.daemon.manager = lambda: None
pyspark_penstock.daemon.main()
print(json.dumps(sorted(name for name in sys.modules if name.partition(".")[0] in ("penstock", "pyarrow", "confluent_kafka"))))
"""


def test_should_know_the_environments_of_threads() -> None:
    assert daemon.THREAD == VARIABLE


@pytest.mark.parametrize("thread", [True, False])
def test_should_import_nothing_before_it_listens_where_it_is_a_threads(thread: bool) -> None:
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE} | ({VARIABLE: "one"} if thread else {})
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=True, timeout=LIMIT
    )
    loaded = json.loads(done.stdout)
    assert loaded == [] if thread else "penstock.spark.worker.residency" in loaded
