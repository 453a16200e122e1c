"""The jars of the development broker: resolved once per user, kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import glob
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from penstock.errors import BrokerError

KAFKA_VERSION = "4.3.0"
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"


def broker_class_path() -> str:
    """The class path of a Kafka broker; the first call of a user downloads about 38 MB."""
    folder = _cache_folder() / f"kafka-{KAFKA_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first users at once: one resolves, the other waits for it
        listed = folder / "jars.txt"
        jars = listed.read_text().split("\n") if listed.exists() else []
        if not jars or not all(os.path.exists(jar) for jar in jars):
            jars = _resolve(folder)
            listed.write_text("\n".join(jars))
    # The resolver leaves out what Spark already has (scala-library, jackson, slf4j): Spark's own jars come after.
    return ":".join([*jars, *_spark_jars()])


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _spark_jars() -> list[str]:
    found = importlib.util.find_spec("pyspark")  # only its place is needed: importing it takes half a second
    if found is None or not found.submodule_search_locations:
        raise BrokerError("the development broker needs pyspark installed: pip install penstock")
    return sorted(glob.glob(os.path.join(found.submodule_search_locations[0], "jars", "*.jar")))


def _resolve(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.spark.resolver", _COORDINATES, str(folder / "ivy")],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BrokerError(
            f"the development broker's jars ({_COORDINATES}) could not be fetched from Maven Central ({reason}): "
            "connect to the network once, or set bootstrap.servers to a broker you have"
        )
    return done.stdout.split()
