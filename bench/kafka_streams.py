"""Kafka Streams (Java), built with Maven, run as a child process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PROJECT = Path(__file__).parent / "java"


class JavaApplication:
    """One run of a Java program of `bench/java`; a context manager that ends it."""

    def __init__(self, main: str, *arguments: str) -> None:
        self._command = ["java", "-cp", f"{_PROJECT}/target/classes:{_class_path()}", main, *arguments]

    def __enter__(self) -> JavaApplication:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def wait_until_running(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "RUNNING":
                return
        raise RuntimeError(f"{self._command[-1]} ended before it ran")

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _class_path() -> str:
    """Compile once; the class path as Maven sees it."""
    if shutil.which("mvn") is None:
        raise SystemExit("the bench needs Maven to build Kafka Streams (Java)")
    listed = _PROJECT / "target" / "classpath.txt"
    sources = max(path.stat().st_mtime for path in _PROJECT.rglob("*.java"))
    if not listed.exists() or listed.stat().st_mtime < sources:
        goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        subprocess.run(["mvn", "-q", "-f", str(_PROJECT / "pom.xml"), *goals], check=True)
    return listed.read_text().strip()
