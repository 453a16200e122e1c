"""The settings that penstock adds to a SparkSession that it makes.

In order of precedence, weakest first: penstock's settings, `spark-defaults.conf` and `spark-submit`, the application's
`spark.*` keys.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyspark import SparkConf

from penstock.spark.internals import connect_to_jvm, running_gateway, spark_home

LOOPBACK: Final = "127.0.0.1"

# The JVM only schedules tasks; Python does the work. Its second compiler costs as much CPU as everything else in the first
# minutes: 39 -> 20 s for starting and 100 shuffles.
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1"

_DEFAULTS: Final = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # halves the cost of a Python task: 136 -> 72 ms for four tasks
    # a thread's state is on its executor, so wait for a core there; Spark does not wait for a lost executor
    "spark.locality.wait": "60s",
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
    "spark.speculation": "false",  # a second attempt would only be refused
    "spark.broadcast.blockSize": "256k",  # each job broadcasts a few KB, for which Spark clears a block of 4 MB
    "spark.sql.shuffle.partitions": "4",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "1000",
    # Spark's default (secret, password, token, access key) would show other secrets in its UI and event log.
    "spark.redaction.regex": "(?i)secret|passw|passphrase|token|credential|jaas|assertion"
    "|(access|api|account|private|storage|encryption|signing)[._-]?key",
}

_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
_LOCAL: Final = re.compile(r"local(\[.*\])?")
_PROPERTY: Final = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*?)\s*")


def is_local_master(master: str) -> bool:
    """Return True if all of Spark runs in the driver's JVM.

    >>> is_local_master("local[*]"), is_local_master("local-cluster[2,1,1024]"), is_local_master("spark://host:7077")
    (True, False, False)
    """
    return _LOCAL.fullmatch(master) is not None


def own_settings(given: Mapping[str, str], elsewhere: Mapping[str, str], threads: int = 0) -> dict[str, str]:
    """Return penstock's settings for keys that neither the application nor `elsewhere` sets.

    A resident stream thread occupies one task slot. With more stream threads than cores, a local master gets one slot for
    each, and the operating system shares the cores, as with Kafka Streams' threads.

    With a local master, Spark listens on loopback only and generates a secret. On a cluster, addresses and secrets are the
    administrator's choice.
    """
    found = {key: value for key, value in _DEFAULTS.items() if key not in elsewhere}
    if "spark.master" in found and threads > (os.cpu_count() or 1):
        found["spark.master"] = f"local[{threads}]"
    if is_local_master({**found, **elsewhere, **given}["spark.master"]):
        if "spark.authenticate" not in elsewhere:
            found["spark.authenticate"] = "true"
        if listens_on_loopback(given, elsewhere):
            found |= dict.fromkeys(_ADDRESSES, LOOPBACK)
    return {key: value for key, value in found.items() if key not in given}


def listens_on_loopback(given: Mapping[str, str], elsewhere: Mapping[str, str]) -> bool:
    """Return True if Spark should listen on loopback: the master is local and no address is configured."""
    known = {**_DEFAULTS, **elsewhere, **given}
    return is_local_master(known["spark.master"]) and not ({*_ADDRESSES} & {*known}) and "SPARK_LOCAL_IP" not in os.environ


def settings_elsewhere(passed_by_us: frozenset[str]) -> dict[str, str]:
    """Return the settings of `spark-submit` or `spark-defaults.conf`. `passed_by_us` are the options of a JVM that penstock
    started.
    """
    if running_gateway() is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        connect_to_jvm()
        return {key: value for key, value in SparkConf().getAll() if key not in passed_by_us}
    return _settings_of_next_start()


def _settings_of_next_start() -> dict[str, str]:
    """Return the settings that `spark-submit` will read when it starts the JVM."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME") or spark_home()) / "conf"
    file = Path(folder) / "spark-defaults.conf"
    found = {}
    arguments = shlex.split(re.sub(r"(--[a-z-]+)=", r"\1 ", os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    for option, value in pairwise(arguments):
        if option in ("--conf", "-c"):
            key, _, text = value.partition("=")
            found[key] = text
        elif option == "--master":
            found["spark.master"] = value
        elif option == "--properties-file":
            file = Path(value)
    return {**read_properties(file), **found}


def read_properties(file: Path) -> dict[str, str]:
    """Return the entries of a properties file such as `spark-defaults.conf`; none if it does not exist."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    entries = (_PROPERTY.fullmatch(line) for line in lines)
    return {entry.group(1): entry.group(2) for entry in entries if entry is not None}
