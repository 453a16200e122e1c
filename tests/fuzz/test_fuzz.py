"""Every parser of bytes from outside gives a value or an error that it documents, whatever it is given.

`PENSTOCK_FUZZ_MINUTES` is how long the slow test takes; ten minutes by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.parsers import parsers
from tests.fuzz.run import fuzz, rounds

ROOT = Path(__file__).parents[2]


def test_should_take_what_is_valid() -> None:
    for name, parser in parsers().items():
        for data in parser.valid:
            try:
                parser.read(data)
            except Exception as exc:
                raise AssertionError(f"{name} refuses {data[:100]!r}") from exc


def test_should_survive_the_corpus_and_a_round_of_mutations(tmp_path: Path) -> None:
    assert fuzz(0, 14, tmp_path / "last") > 10_000


def test_should_go_on_for_as_long_as_wanted() -> None:
    times = iter([0.0, 10.0, 20.0, 30.0])
    assert list(rounds(30, 5, lambda: next(times))) == [5, 6, 7]


@pytest.mark.slow
def test_should_survive_minutes_of_mutations(tmp_path: Path) -> None:
    """In a process of its own: a parser in C that is led astray ends the process."""
    minutes, last = os.environ.get("PENSTOCK_FUZZ_MINUTES", "10"), tmp_path / "last"
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--minutes", minutes, "--last", str(last)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    read = last.read_bytes().rstrip(b"\0")[:300] if last.exists() else b""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}\nwhile it read {read!r}"
