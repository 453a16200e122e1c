"""The jars of the development broker: resolved once per user, kept in the user's cache folder, checked before each use.

There is one version of Kafka for each version of penstock, and its jars are pinned (`jar_hashes`). After a change of
`KAFKA_VERSION` they are pinned anew with `python -m penstock.kafka.broker_jars`.
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

# Not 4.3.0 or 4.3.1: their transaction coordinator takes a partition that has no leader for the moment for one that was deleted,
# and completes a transaction without its markers (KAFKA-20734). A single broker has such a moment at every start after a kill.
KAFKA_VERSION = "4.2.2"
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
_FETCH_SECONDS = 900.0  # a slow network is no reason to give up


def broker_class_path() -> str:
    """The class path of a Kafka broker; the first call of a user downloads about 38 MB.

    Raises BrokerError where a jar is not the one that was pinned, wherever it came from and whenever it was changed.
    """
    folder = _cache_folder() / f"kafka-{KAFKA_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first users at once: one resolves, the other waits for it
        listed = folder / "jars.txt"
        jars = listed.read_text().split("\n") if listed.exists() else []
        if not jars or not all(os.path.exists(jar) for jar in jars):
            jars = _resolve(folder)
            listed.write_text("\n".join(jars))
        check_jars(jars, pinned_hashes(), folder)  # 38 MB: about a tenth of a second
    # The resolver leaves out what Spark already has (scala-library): Spark's own jars come after. Of slf4j it leaves only the API
    # of a release that does not find Spark's logging; with that one the broker would say nothing.
    own = [jar for jar in jars if not Path(jar).name.startswith("org.slf4j_slf4j-api")]
    return ":".join([*own, *_spark_jars()])


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _spark_jars() -> list[str]:
    found = importlib.util.find_spec("pyspark")  # only its place is needed: importing it takes half a second
    if found is None or not found.submodule_search_locations:
        raise BrokerError("the development broker needs pyspark installed: pip install penstock-streams")
    return sorted(glob.glob(os.path.join(found.submodule_search_locations[0], "jars", "*.jar")))


def _resolve(folder: Path) -> list[str]:
    # Nothing is imported from the folder that the user happens to be in (Python 3.11 and later know the variable).
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
            f"the development broker's jars ({_COORDINATES}) did not come from Maven Central within {_FETCH_SECONDS:.0f} s: try "
            "again with a better network, or set bootstrap.servers to a broker you have"
        ) from exc
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BrokerError(
            f"the development broker's jars ({_COORDINATES}) could not be fetched from Maven Central ({reason}): "
            "connect to the network once, or set bootstrap.servers to a broker you have"
        )
    return done.stdout.split()


def pin() -> None:
    """Resolve the jars from nothing and write down their hashes."""
    with tempfile.TemporaryDirectory(prefix="penstock-jars-") as folder:
        jars = _resolve(Path(folder))
        write_pins(jars)
    print(f"{len(jars)} jars of {_COORDINATES} pinned in {PINNED}")


if __name__ == "__main__":
    pin()
