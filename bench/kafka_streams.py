"""Kafka Streams (Java), built with Maven."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

_PROJECT = Path(__file__).parent / "java"


def command() -> list[str]:
    """How to start `bench.App`; compiles where sources have changed."""
    return ["java", "-cp", f"{_PROJECT}/target/classes:{_class_path()}", "bench.App"]


def version() -> str:
    """Return the version of kafka-streams that is compared with, which the project file pins."""
    pinned = re.search(r"<artifactId>kafka-streams</artifactId>\s*<version>([^<]+)</version>", (_PROJECT / "pom.xml").read_text())
    assert pinned is not None, "the project file names kafka-streams"
    return pinned[1]


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
