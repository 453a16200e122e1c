"""Several applications in a process of its own, which can be killed like any other."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.faults.applications import APPLICATIONS
from tests.harness.network import Apart

_ROOT = Path(__file__).parents[2]

STARTED = "all applications are started"


class ApplicationProcess:
    """Starts and kills the process; `start` again goes on with the same state folder."""

    def __init__(
        self,
        names: Sequence[str],
        bootstrap_servers: str,
        guarantee: str,
        folder: Path,
        log: Path,
        host: Apart | None = None,
    ) -> None:
        self._arguments = [bootstrap_servers, guarantee, str(folder), *names]
        self._log = log
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        """Start the process; what it says goes to the log."""
        self._starts += 1
        command = [sys.executable, "-m", "tests.faults.process", *self._arguments]
        environment = {**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"}
        if self._host is not None:
            command, environment = [*self._host.command, *command], {**environment, **self._host.environment}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=_ROOT, env=environment)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of the driver; its JVM and workers notice and end by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._release()

    def kill_worker(self, choose: int = 0) -> int | None:
        """kill -9 of one of Spark's Python workers, None where there is none at the moment."""
        assert self._process is not None
        workers = python_workers(self._process.pid)
        if not workers:
            return None
        victim = workers[choose % len(workers)]
        os.kill(victim, signal.SIGKILL)
        return victim

    @property
    def has_started(self) -> bool:
        """Whether all applications have been started since the last start."""
        return self._log.read_bytes().splitlines().count(STARTED.encode()) == self._starts

    def kill_jvm(self) -> int | None:
        """kill -9 of Spark's JVM, None where there is none at the moment."""
        assert self._process is not None
        jvm = next((pid for pid in _children().get(self._process.pid, ()) if _is_jvm(pid)), None)
        if jvm is not None:
            os.kill(jvm, signal.SIGKILL)
        return jvm

    def freeze(self) -> None:
        """Stop the driver where it is: no heartbeat, no turn, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen driver go on as if nothing had been."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self, timeout: float = 240.0) -> int:
        """Ask the applications to close; returns the process's exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout)
        self._release()
        return code

    def _release(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def python_workers(driver: int) -> list[int]:
    """Spark's Python workers under a driver: the children of its daemon."""
    children = _children()
    daemons = [pid for jvm in children.get(driver, ()) for pid in children.get(jvm, ()) if _is_daemon(pid)]
    return sorted(pid for daemon in daemons for pid in children.get(daemon, ()) if _is_daemon(pid))


def _children() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry))
    return children


def _is_daemon(pid: int) -> bool:
    """Whether a process runs Spark's Python daemon; what starts the JVM has the daemon's name among its settings too."""
    daemons = ((b"-m", b"penstock.spark.worker.daemon"), (b"-m", b"pyspark.daemon"))
    return any(pair in daemons for pair in pairwise(_arguments(pid)))


def _is_jvm(pid: int) -> bool:
    """Whether a process is Spark's JVM, and not the script that becomes it."""
    return b"org.apache.spark.deploy.SparkSubmit" in _arguments(pid)


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def main(bootstrap_servers: str, guarantee: str, folder: str, *names: str) -> int:
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
            "task.spread": "always",  # tasks of one application in two lanes: one may commit and the other not
            "batch.max.records": 300,
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
