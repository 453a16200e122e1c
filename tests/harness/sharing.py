"""A process of its own in which applications and the user share a SparkSession."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.harness.waiting import LIMIT

_ROOT = Path(__file__).parents[2]


class SharedProcess:
    """Does what it is asked for, one thing after the other; also a context manager."""

    def __init__(
        self, folder: Path, workers: str = sys.executable, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._log, self._workers, self._environment = folder / "sharing.log", workers, environment

    def __enter__(self) -> SharedProcess:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.apps.sharing"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=_ROOT,
                # Workers of a session that the user has made run the python3 of the PATH, unless they are told.
                env={
                    **os.environ,
                    **self._environment,
                    "PYSPARK_PYTHON": self._workers,
                    "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}",
                },
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(LIMIT)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def do(self, what: str, **details: Any) -> Any:
        """What comes of it; fails with what the process wrote where it cannot be done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **details}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                assert "answer" in answer, f"{what}: {answer}\n{self._log.read_text()[-4000:]}"
                return answer["answer"]
        raise AssertionError(f"the process ended at {what}: {self._log.read_text()[-4000:]}")
