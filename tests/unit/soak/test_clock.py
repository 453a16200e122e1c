"""A clock that is put forward and back under a running process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.clock import NoClockError, WrongClock

_PROGRAM = """
import sys, threading, time
for line in sys.stdin:
    before = time.monotonic()
    time.sleep(0.01)
    threading.Event().wait(0.01)
    assert time.monotonic() - before < 30
    print(round(time.time()), flush=True)
"""


def test_should_step_the_wall_clock_of_a_running_process_and_leave_its_waits_alone(tmp_path: Path) -> None:
    try:
        clock = WrongClock(tmp_path)
    except NoClockError as exc:
        pytest.skip(str(exc))
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for offset in (0, 3_600, -3_600, 0):
            clock.be_wrong_by(offset)
            process.stdin.write("\n")
            process.stdin.flush()
            assert abs(int(process.stdout.readline()) - time.time() - offset) < 60
        process.stdin.close()
    clock.close()
    assert process.returncode == 0
