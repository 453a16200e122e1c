"""A Python process of ours, with a Spark under it, that is killed, frozen, stopped, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.processes import Processes
from tests.harness.waiting import LIMIT

ROOT = Path(__file__).parents[2]


class KillableProcess:
    """Runs a module; what it says goes to its log. Its input stays open for as long as whoever has started it lives."""

    own_session = False
    """Whether it is out of reach of the signals that end whoever has started it."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._command = [sys.executable, "-m", module, *arguments]
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, **self._environment},
                start_new_session=self.own_session,
            )

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it has not been started"
        return self._process

    @property
    def pid(self) -> int:
        """Its id."""
        return self._running.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def write(self, line: bytes) -> None:
        """Say something to it; it may have been killed."""
        stdin = self._running.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.write(line + b"\n")
            stdin.flush()

    def kill(self) -> None:
        """kill -9 of the driver; its JVM and workers notice and end by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT)
            self._release()

    def kill_worker(self, choose: int = 0) -> int | None:
        """kill -9 of one of Spark's Python workers, None where there is none at the moment."""
        return _kill_one(Processes.now().workers([self.pid]), choose)

    def kill_jvm(self) -> int | None:
        """kill -9 of Spark's JVM, None where there is none at the moment."""
        return _kill_one(Processes.now().jvms([self.pid]))

    def freeze(self) -> None:
        """Stop the driver where it is: no heartbeat, no turn, until `thaw`."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen driver go on as if nothing had been."""
        self._running.send_signal(signal.SIGCONT)

    def stop(self, timeout: float = LIMIT) -> int:
        """Ask it to close; its exit code."""
        self._running.send_signal(signal.SIGTERM)
        code = self._running.wait(timeout)
        self._release()
        return code

    def end(self) -> None:
        """End it with everything under it, whatever state it is in."""
        if self._process is None:
            return
        under = Processes.now().below([self._process.pid])
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(LIMIT)
        for pid in under:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._release()

    def _release(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def _kill_one(pids: list[int], choose: int = 0) -> int | None:
    if not pids:
        return None
    victim = pids[choose % len(pids)]
    os.kill(victim, signal.SIGKILL)
    return victim
