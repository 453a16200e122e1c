"""One side of the bench as a child process: Kafka Streams (Java) or penstock, told apart by their command only."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from bench import kafka_streams
from bench.processes import end_session

Side = Literal["java", "penstock"]
SIDES: tuple[Side, Side] = ("java", "penstock")
_ROOT = Path(__file__).parent.parent
_START_SECONDS, _CLOSE_SECONDS = 900.0, 60.0


@dataclass(frozen=True)
class Spec:
    """What to run: the same for both sides."""

    topology: str
    application_id: str
    bootstrap: str
    state_dir: str
    source: str
    sink: str
    other: str = "-"
    settings: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        named = [self.topology, self.application_id, self.bootstrap, self.state_dir, self.source, self.other, self.sink]
        return [*named, *settings]


class Application:
    """A running side; a context manager that leaves no process behind.

    It ends with its standard input, so that it also ends when this process is killed.
    """

    def __init__(self, side: Side, spec: Spec) -> None:
        self._side = side
        start = kafka_streams.command() if side == "java" else [sys.executable, "-m", "bench.penstock_app"]
        self._command = [*start, *spec.arguments()]
        self.is_up = threading.Event()
        self.restored = 0
        self.restore_seconds = 0.0
        self.started = 0.0
        self.up = 0.0  # seconds from the start of the process to RUNNING

    @property
    def pid(self) -> int:
        """The leader of the session in which all processes of this side live."""
        return self._process.pid

    def __enter__(self) -> Application:
        self._errors = tempfile.TemporaryFile("w+")
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
            env=_environment(),
            start_new_session=True,
        )
        return self

    def wait_until_running(self) -> float:
        """Returns at RUNNING, with the seconds since the process was started."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(_START_SECONDS, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            return self._read_until_running(self._process.stdout)
        finally:
            watchdog.cancel()

    def _read_until_running(self, output: IO[str]) -> float:
        for line in output:
            word, *told = line.split()
            if word == "RUNNING":
                self.up, self.restored, self.restore_seconds = time.monotonic() - self.started, int(told[0]), float(told[1])
                self.is_up.set()
                return self.up
        self._process.wait(_CLOSE_SECONDS)
        raise RuntimeError(f"{self._side} ended before it ran:\n{self.last_words()}")

    def check_alive(self) -> None:
        """Raises where the application has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._side} ended by itself:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        self._errors.seek(0)
        return self._errors.read()[-3000:]

    def __exit__(self, *_: object) -> None:
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            end_session(self._process.pid)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._errors.close()


def _environment() -> dict[str, str]:
    """As a user has it: an installed package has been compiled once, not at each start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
