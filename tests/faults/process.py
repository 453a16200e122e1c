"""Several applications in a process of its own, which can be killed like any other."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.faults.applications import APPLICATIONS
from tests.harness.killable import KillableProcess
from tests.harness.network import Apart

STARTED = "all applications are started"


class ApplicationProcess(KillableProcess):
    """The process of this module; `start` again goes on with the same state folder. It may be on a host of its own."""

    def __init__(
        self,
        names: Sequence[str],
        bootstrap_servers: str,
        guarantee: str,
        folder: Path,
        log: Path,
        host: Apart | None = None,
        resident: bool = False,
    ) -> None:
        arguments = [bootstrap_servers, guarantee, "resident" if resident else "planned", str(folder), *names]
        super().__init__("tests.faults.process", arguments, log, None if host is None else host.environment)
        if host is not None:
            self._command = [*host.command, *self._command]
        self._starts = 0

    def start(self) -> None:
        """Start it, and count that."""
        self._starts += 1
        super().start()

    @property
    def has_started(self) -> bool:
        """Whether all applications have been started since the last start."""
        return self.log.read_bytes().splitlines().count(STARTED.encode()) == self._starts


def main(bootstrap_servers: str, guarantee: str, turns: str, folder: str, *names: str) -> int:
    """Run the applications until told to stop; an application that fails ends the process."""
    from penstock import KafkaStreams

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for noisy in ("kafka", "py4j"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    running = []
    for name in names:
        config = {
            "application.id": name,
            "bootstrap.servers": bootstrap_servers,
            "processing.guarantee": guarantee,
            "state.dir": folder,
            "num.stream.threads": 2 if name.startswith(("word-count", "chain")) else 1,
            "commit.interval.ms": 20,
            # Tasks of one application in two threads: one may commit and the other not. Or one thread has all of them, and stays.
            **({} if turns == "resident" else {"task.spread": "always", "batch.max.records": 300}),
            "statestore.cache.max.bytes": 0,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "spark.master": "local[4]",  # the session is the applications' own: they share it, and make it again
        }
        application = APPLICATIONS[name.rpartition("-")[0]]
        running.append(KafkaStreams(application.build(name), config))
    for streams in running:
        streams.start()
    print(STARTED, flush=True)
    while not stopped.wait(0.2):
        failed = [streams.failure for streams in running if streams.failure is not None]
        if failed:
            logging.error("failed: %r", failed)
            return 1
    for streams in running:
        streams.close(60_000)
    print("closed", flush=True)
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # not held up by threads of clients that were killed under
