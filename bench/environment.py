"""Where and with what a result was made."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import penstock
from bench import kafka_streams
from penstock.kafka.broker_jars import KAFKA_VERSION

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
        "Kafka Streams": kafka_streams.version(),
        "broker": KAFKA_VERSION,
        "data": _file_system(Path(tempfile.gettempdir())),
        "Java": java[0].split('"')[1] if java and '"' in java[0] else "unknown",
        "Python": platform.python_version(),
        "CPUs": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
    }


def _file_system(folder: Path) -> str:
    """What kind of file system a folder is on, as the kernel calls it: where brokers and stores of both sides have their data."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(where, kind) for where, kind in mounts if folder.resolve().is_relative_to(where)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench", ":!bench/results")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with changes" if changed else "")
