"""Kafka Streams (Java), built with Maven."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_PROJECT = Path(__file__).parent / "java"


def command() -> list[str]:
    """How to start `bench.App`; compiles where sources have changed."""
    return ["java", "-cp", f"{_PROJECT}/target/classes:{_class_path()}", "bench.App"]


def version() -> str:
    """The version of kafka-streams that is on the class path."""
    jars = [Path(entry).name for entry in _class_path().split(":")]
    return next(jar[len("kafka-streams-") : -len(".jar")] for jar in jars if jar.startswith("kafka-streams-"))


def _class_path() -> str:
    """Compile once; the class path as Maven sees it."""
    if shutil.which("mvn") is None:
        raise SystemExit("the bench needs Maven to build Kafka Streams (Java)")
    listed = _PROJECT / "target" / "classpath.txt"
    changed = max(path.stat().st_mtime for path in [*_PROJECT.rglob("*.java"), _PROJECT / "pom.xml"])
    if not listed.exists() or listed.stat().st_mtime < changed:
        goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        for offline in (["-o"], []):
            # Offline first: what has been downloaded once builds without a network.
            done = subprocess.run(
                ["mvn", "-q", "-B", *offline, "-f", str(_PROJECT / "pom.xml"), *goals],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                listed.touch()
                break
        else:
            raise SystemExit(f"Kafka Streams (Java) could not be built:\n{done.stdout[-2000:]}")
    return listed.read_text().strip()
