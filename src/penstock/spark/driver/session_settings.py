"""What penstock sets in a SparkSession that it makes: only what nobody has set.

From the weakest: penstock's own settings, those of `spark-defaults.conf` and of `spark-submit`, the application's `spark.*` keys.
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

# The JVM hands out tasks; Python does the work. Its second compiler costs as much as all the rest of it in the
# first minutes: 39 -> 20 s of CPU for starting and 100 shuffles.
JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1"

_DEFAULTS: Final = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # halves the cost of a Python task: 136 -> 72 ms for four
    "spark.locality.wait": "60s",  # a thread's state is on its executor: wait for a core there; a lost one is not waited for
    "spark.executor.extraJavaOptions": JVM_OPTIONS,
    "spark.speculation": "false",  # a second attempt beside the first would only be refused
    "spark.broadcast.blockSize": "256k",  # every job broadcasts some KB of its own, for which Spark clears a block of 4 MB
    "spark.sql.shuffle.partitions": "4",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "1000",
    # Spark's own (secret, password, token, access key) would show the rest in its UI and its event log.
    "spark.redaction.regex": "(?i)secret|passw|passphrase|token|credential|jaas|assertion"
    "|(access|api|account|private|storage|encryption|signing)[._-]?key",
}

_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
_LOCAL: Final = re.compile(r"local(\[.*\])?")
_PROPERTY: Final = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*?)\s*")


def is_local_master(master: str) -> bool:
    """Whether all of Spark is in the driver's JVM.

    >>> is_local_master("local[*]"), is_local_master("local-cluster[2,1,1024]"), is_local_master("spark://host:7077")
    (True, False, False)
    """
    return _LOCAL.fullmatch(master) is not None


def own_settings(given: Mapping[str, str], elsewhere: Mapping[str, str], threads: int = 0) -> dict[str, str]:
    """Return what penstock sets besides the application's own keys and those of elsewhere.

    A resident stream thread occupies one task slot of Spark. With more stream threads than cores, a local master has one slot for
    each: the operating system shares the cores, as it does between the threads of Kafka Streams.

    With a local master nobody comes from outside, so Spark listens on loopback alone, and asks for a secret that it makes itself.
    On a cluster the addresses are the network's business, and all processes would have to know the secret.
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
    """Whether Spark is to listen on loopback: its master is local, and nobody has named an address."""
    known = {**_DEFAULTS, **elsewhere, **given}
    return is_local_master(known["spark.master"]) and not ({*_ADDRESSES} & {*known}) and "SPARK_LOCAL_IP" not in os.environ


def settings_elsewhere(passed_by_us: frozenset[str]) -> dict[str, str]:
    """What `spark-submit` or `spark-defaults.conf` set; `passed_by_us` is what a JVM of ours that still runs was started with."""
    if running_gateway() is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        connect_to_jvm()
        return {key: value for key, value in SparkConf().getAll() if key not in passed_by_us}
    return _settings_of_next_start()


def _settings_of_next_start() -> dict[str, str]:
    """What `spark-submit`, which starts the JVM, will find."""
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
    """The entries of a file such as `spark-defaults.conf`; none where there is no such file."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    entries = (_PROPERTY.fullmatch(line) for line in lines)
    return {entry.group(1): entry.group(2) for entry in entries if entry is not None}
