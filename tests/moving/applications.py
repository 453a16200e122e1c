"""An application of either kind as a process: it closes or is killed, and another of the same id goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.java_twin import JVM_FLAGS, LIBRARIES
from tests.harness.waiting import LIMIT

_ROOT = Path(__file__).parents[2]

SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
    "statestore.cache.max.bytes": "0",
    "auto.offset.reset": "earliest",
    # Results that are due are looked for at every record, so that they do not depend on the time of day.
    "__emit.interval.ms.kstreams.windowed.aggregation__": "0",
}


class Application:
    """One process that runs a topology: NAME APPLICATION_ID BOOTSTRAP STATE_DIR SOURCE OTHER SINK [key=value ...]."""

    kind = ""

    def __init__(self, command: Sequence[str], arguments: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        given = [f"{key}={value}" for key, value in {**SETTINGS, **settings}.items()]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, *arguments, *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
            )
        self.log = log
        self._said, self._runs = threading.Event(), False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == b"RUNNING":
                self._runs = True
                self._said.set()
        self._said.set()

    def wait(self, seconds: float = 180.0) -> None:
        """Until it runs."""
        assert self._said.wait(seconds), f"{self.kind} does not run after {seconds:.0f} s: {self.log.read_text()[-2000:]}"
        assert self._runs, f"{self.kind} has ended: {self.log.read_text()[-3000:]}"

    def close(self, *, leave: bool = True) -> None:
        """Close it as an operator does."""
        self._process.communicate(b"leave" if leave else b"", timeout=LIMIT)
        assert self._process.returncode == 0, f"{self.kind} did not close well: {self.log.read_text()[-3000:]}"

    def kill(self) -> None:
        """End it at once; what belongs to it ends by itself."""
        self._process.kill()
        self._process.communicate(timeout=LIMIT)


class JavaApplication(Application):
    """Kafka Streams itself."""

    kind = "Java"

    def __init__(self, classes: Path, arguments: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        java = ["java", *JVM_FLAGS, "-cp", f"{classes}:{LIBRARIES}/*", "penstock.moving.App"]
        super().__init__(java, arguments, {"num.stream.threads": "1", "session.timeout.ms": "8000", **settings}, log)


class PenstockApplication(Application):
    """The same in Python."""

    kind = "penstock"

    def __init__(self, arguments: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        command = [sys.executable, "-m", "tests.moving.applications"]
        super().__init__(command, arguments, {"num.stream.threads": "2", "session.timeout.ms": "8000", **settings}, log)


def main() -> None:
    """Run a topology of `topologies.py`."""
    import logging

    from penstock import CloseOptions, KafkaStreams
    from tests.conftest import wait_until_running
    from tests.moving.topologies import named

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    name, application, bootstrap, state, source, other, sink, *settings = sys.argv[1:]
    config = {"application.id": application, "bootstrap.servers": bootstrap, "state.dir": state, "spark.master": "local[2]"}
    streams = KafkaStreams(named(name, source, other, sink), {**config, **dict(pair.split("=", 1) for pair in settings)})
    streams.start()
    wait_until_running(streams)
    print("RUNNING", flush=True)
    said = sys.stdin.read().strip()
    closed = streams.close(CloseOptions(timeout=120_000, leave_group=said == "leave"))
    sys.exit(0 if closed else 2)


if __name__ == "__main__":
    main()
