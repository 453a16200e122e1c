"""A process that ends with its parent, however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The shell waits at the other end of a pipe. SIGTERM reaches both processes. The shell ignores it and waits for its child.
_GUARD = """exec 3<&0; trap : TERM; "$@" </dev/null & child=$!
(cat <&3 >/dev/null; kill -9 $child 2>/dev/null) &
while kill -0 $child 2>/dev/null; do wait $child; done"""


_KILLED_SECONDS = 30.0  # a killed process ends at once, unless the kernel is stuck


class GuardedProcess:
    """A running command in its own process group, with its output in a file."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None) -> None:
        with output.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - a list of arguments, none of which the shell reads as code
                ["/bin/sh", "-c", _GUARD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process group: the guard, the command and its children."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True until the command has ended."""
        return self._process.poll() is None

    def stop(self, timeout: float = 30.0) -> None:
        """Send SIGTERM, then SIGKILL after `timeout`."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
        self._release()

    def kill(self) -> None:
        """Kill the process at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self._release()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)  # the group has only the guard, the command and its children

    def _release(self) -> None:
        self._process.wait(_KILLED_SECONDS)
        assert self._process.stdin is not None
        self._process.stdin.close()
