"""The jars of the development broker. They are kept in the user's cache folder and checked before each use.

Each version of penstock uses one version of Kafka, with pinned hashes (`kafka/jar_hashes.py`). After a change of
`KAFKA_VERSION`, run `python -m penstock.kafka.broker_jars` to pin the new jars.
"""

from __future__ import annotations

import fcntl
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.errors import BrokerError
from penstock.kafka.jar_hashes import PINNED, check_jars, pinned_hashes, write_pins

# Not 4.3.0 or 4.3.1: their transaction coordinator mistakes a partition without a leader for a deleted one and completes a
# transaction without its markers (KAFKA-20734). A single broker has no leaders for a moment after each kill.
KAFKA_VERSION = "4.2.2"
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
_FETCH_SECONDS = 900.0  # enough for a slow network


def broker_class_path() -> str:
    """Return the class path of a Kafka broker. The first call of a user downloads about 38 MB.

    Raises BrokerError if a jar does not have its pinned hash.
    """
    folder = _cache_folder() / f"kafka-{KAFKA_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two processes that start at once, one resolves and the other waits
        listed = folder / "jars.txt"
        jars = listed.read_text().split("\n") if listed.exists() else []
        if not jars or not all(os.path.exists(jar) for jar in jars):
            jars = _resolve(folder)
            listed.write_text("\n".join(jars))
        check_jars(jars, pinned_hashes(), folder)  # 38 MB take about 0.1 s
    # The resolver omits what Spark has (scala-library), so Spark's jars follow. Its slf4j-api is left out: that release does
    # not find Spark's logging, and the broker would log nothing.
    own = [jar for jar in jars if not Path(jar).name.startswith("org.slf4j_slf4j-api")]
    return ":".join([*own, *_spark_jars()])


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _spark_jars() -> list[str]:
    found = importlib.util.find_spec("pyspark")  # find_spec alone: importing pyspark takes half a second
    if found is None or not found.submodule_search_locations:
        raise BrokerError("the development broker needs pyspark installed: pip install penstock-streams")
    return sorted(glob.glob(os.path.join(found.submodule_search_locations[0], "jars", "*.jar")))


def _resolve(folder: Path) -> list[str]:
    # Import nothing from the current folder (Python 3.11 and later).
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, with names of our own
            [sys.executable, "-m", "penstock.spark.driver.resolver", _COORDINATES, str(folder / "ivy")],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as exc:
        raise BrokerError(
            f"the development broker's jars ({_COORDINATES}) were not downloaded from Maven Central within "
            f"{_FETCH_SECONDS:.0f} s. Try again with a better network, or set  bootstrap.servers to a broker you have"
        ) from exc
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BrokerError(
            f"the development broker's jars ({_COORDINATES}) could not be fetched from Maven Central ({reason}): "
            "connect to the network once, or set bootstrap.servers to a broker you have"
        )
    return done.stdout.split()


def pin() -> None:
    """Resolve the jars without a cache and write their hashes."""
    with tempfile.TemporaryDirectory(prefix="penstock-jars-") as folder:
        jars = _resolve(Path(folder))
        write_pins(jars)
    print(f"{len(jars)} jars of {_COORDINATES} pinned in {PINNED}")


if __name__ == "__main__":
    pin()
