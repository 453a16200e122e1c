"""Run the tests of this folder on every minor version of pyspark from 4.0: `make test-spark-versions`.

Each version gets an environment of its own under `.venv-spark`, with nothing in it but pyspark: all else is the development
environment's, which comes behind it on the path. A version that cannot be installed is left out, with a line that says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-spark"
FIRST = (4, 0)


def newest_of_each_minor(versions: Iterable[str], first: tuple[int, int] = FIRST) -> list[str]:
    """The newest release of each minor version, oldest first.

    >>> newest_of_each_minor(["4.1.0", "4.0.2", "4.0.10", "3.5.9", "4.2.0rc1"])
    ['4.0.10', '4.1.0']
    """
    parsed = sorted(tuple(map(int, v.split("."))) for v in versions if re.fullmatch(r"\d+\.\d+\.\d+", v))
    newest = {version[:2]: version for version in parsed if version[:2] >= first}
    return [".".join(map(str, version)) for version in newest.values()]


def known_versions() -> list[str]:
    """What the package index has."""
    command = [sys.executable, "-m", "pip", "index", "versions", "pyspark", "--disable-pip-version-check"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(r"Available versions: (.*)", told)
    return [] if match is None else match.group(1).split(", ")


def install(version: str) -> str | None:
    """An environment with this pyspark; what went wrong where there is none."""
    folder = FOLDER / version
    stamp = folder / ".installed"
    if stamp.exists():
        return None
    venv.create(folder, with_pip=True, clear=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, f"pyspark=={version}"], capture_output=True, text=True, env=_environment(), check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "development.pth").write_text(sysconfig.get_path("purelib") + "\n")
    stamp.touch()
    return None


def run(version: str) -> tuple[str, float]:
    """What pytest says in its last line, and how long it took."""
    started = time.monotonic()
    # Before 4.2 pyspark leaves its own sockets to the garbage collector.
    lenient = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
    python, tests, report = FOLDER / version / "bin" / "python", Path(__file__).parent, FOLDER / f"{version}.log"
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *lenient, str(tests)]
    with report.open("w") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=_environment(), cwd=ROOT, check=False)
    return ("passed" if code.returncode == 0 else f"FAILED, see {report.relative_to(ROOT)}"), time.monotonic() - started


def _environment() -> dict[str, str]:
    """Without what would put another pyspark first."""
    left_out = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONHOME")
    found = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**found, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


def main() -> int:
    failed = False
    for version in sys.argv[1:] or newest_of_each_minor(known_versions()):
        problem = install(version)
        if problem is not None:
            print(f"pyspark {version:8} left out: it cannot be installed here: {problem}", flush=True)
            continue
        result, seconds = run(version)
        failed = failed or result != "passed"
        print(f"pyspark {version:8} {result} ({seconds:.0f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
