"""Where and with what a result was made."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import penstock
from bench import kafka_streams

_ROOT = Path(__file__).parent.parent


def describe() -> dict[str, str]:
    """Commit, versions, date and machine."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return {
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "penstock": penstock.__version__,
        "pyspark": version("pyspark"),
        "confluent-kafka": version("confluent-kafka"),
        "Kafka Streams and broker": kafka_streams.version(),
        "Java": java[0].split('"')[1] if java and '"' in java[0] else "unknown",
        "Python": platform.python_version(),
        "CPUs": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
    }


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench", ":!bench/results")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with changes" if changed else "")
