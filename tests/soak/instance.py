"""An instance of the applications as whoever runs it sees it: started, killed, stopped, told things, and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.soak.processes import Processes

_ROOT = Path(__file__).parents[2]


class InstanceProcess:
    """Starts the process of `tests/soak/process.py`; `start` again goes on with the same folders."""

    def __init__(self, folder: Path, given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._status = folder.with_suffix(".status")
        self._given = {**given, "status": str(self._status)}
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self.ends_are_fine = False
        self.asked_before = {"answered": 0, "refused": 0}

    def start(self) -> None:
        """Start it; what it says goes to its log."""
        for name in ("local", "events", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._remember()
        command = [sys.executable, "-m", "tests.soak.process", json.dumps(self._given)]
        path = f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"
        local = {"PYTHONPATH": path, "TMPDIR": str(self.folder / "local"), "SPARK_LOCAL_DIRS": str(self.folder / "local")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env={**os.environ, **self._environment, **local},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> dict[str, Any]:
        """What it said of itself last; nothing before it has said anything since its start."""
        try:
            return dict(json.loads(self._status.read_text()))
        except (OSError, ValueError):
            return {}

    @property
    def queries(self) -> dict[str, int]:
        """How many queries were answered and refused, over all its lives."""
        now = self.status.get("queries", {})
        return {name: count + now.get(name, 0) for name, count in self.asked_before.items()}

    @property
    def runs(self) -> bool:
        """Whether all applications run."""
        states = self.status.get("states", {})
        return self.is_alive and bool(states) and set(states.values()) == {"RUNNING"}

    def tell(self, **what: Any) -> None:
        """Let it do something."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it may have been killed
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """kill -9; its JVM and workers notice and end by themselves."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._release()

    def stop(self, timeout: float = 240.0) -> int:
        """Ask it to close; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout)
        self._release()
        return code

    def end(self) -> None:
        """End it with everything under it, whatever state it is in."""
        if self._process is None:
            return
        under = Processes.now().below([self._process.pid])
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
        for pid in under:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._release()

    def last_words(self, lines: int = 60) -> str:
        """The end of what it said, without what its JVM says once the driver is gone."""
        said = self.log.read_text(errors="replace").splitlines()[-2_000:] if self.log.exists() else []
        kept = [line for line in said if not line.lstrip().startswith(("at ", "java.io.IOException: Broken pipe"))]
        why = [line for line in kept if " ERROR " in line and "accumulator" not in line]
        return "\n".join([*why[-5:], "…", *kept[-lines:]])

    def _remember(self) -> None:
        self.asked_before = self.queries
        self._status.unlink(missing_ok=True)

    def _release(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
