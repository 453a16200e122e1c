"""The original, as a process: kafka-streams and its TopologyTestDriver behind JSON lines."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.harness.waiting import LIMIT

_PROJECT = Path(__file__).parent / "java"
_TARGET = _PROJECT / "target"
LIBRARIES = _TARGET / "lib"
# A process lives for a few minutes only: the second compiler and a parallel collector cost more than they give.
JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx1g")


class JavaUnavailableError(Exception):
    """The original cannot be built or run here; the message says why."""


def build() -> Path:
    """Compile the Java side where its sources changed since the last time, offline first; gives the folder of the classes."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise JavaUnavailableError(f"comparing with the original needs Java 17 and Maven: there is no '{tool}' on the PATH")
    classes = _TARGET / f"classes-{_digest(sorted([_PROJECT / 'pom.xml', *_PROJECT.glob('src/**/*.java')]))}"
    finished = classes / "finished"
    if finished.exists():
        return classes
    shutil.rmtree(classes, ignore_errors=True)
    for offline in (["-o"], []):
        command = ["mvn", "-q", "-B", *offline, f"-Dclasses={classes}", "process-classes"]
        result = subprocess.run(command, cwd=_PROJECT, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            finished.touch()
            return classes
        if "COMPILATION ERROR" in result.stdout:
            raise RuntimeError(f"the Java side does not compile:\n{result.stdout}")
    raise JavaUnavailableError(
        f"Maven found kafka-streams or its own plugins neither online nor in the local repository:\n{result.stdout[-2000:]}"
    )


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class JavaTwin:
    """One JVM that answers scenario after scenario."""

    def __init__(self, classes: Path, state_dir: Path) -> None:
        class_path = f"{classes}:{LIBRARIES}/*"
        self._process = subprocess.Popen(
            ["java", *JVM_FLAGS, "-cp", class_path, "penstock.conformance.Main", str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request, one answer."""
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the Java side died (exit code {self._process.wait()}) on the request {json.dumps(request)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process by ending its input."""
        self._requests.close()
        self._process.wait(timeout=LIMIT)
        self._answers.close()
