"""A thread is in one process only: tried with processes that hold a folder as threads do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import LockError, SerializationError
from penstock.spark.worker import worker_process
from penstock.spark.worker.worker_process import (
    MisplacedError,
    WorkerProcess,
    end_daemon,
    end_left,
    is_of_thread,
    read_from_worker,
    run_in_worker,
)
from penstock.state.directory import FolderLock
from tests.harness.waiting import LIMIT

HOLDS_A_FOLDER = """
import sys, time
from pathlib import Path
from penstock.state.directory import FolderLock
lock = FolderLock.acquire(Path(sys.argv[1]))
print("locked", flush=True)
time.sleep(600)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_ID", "1")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes that hold the test's folder."""
    started = []

    def one(*, leads: bool = False, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDS_A_FOLDER, str(tmp_path)]
        known = {**os.environ, **environment}
        process = subprocess.Popen(command, env=known, stdout=subprocess.PIPE, text=True, start_new_session=leads)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        return process

    yield one
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lock_and_tell(folder: Path, rows: Iterator[Any]) -> Iterator[bytes]:
    assert list(rows) == [0]
    FolderLock.acquire(folder).release()
    yield b"opened"


def open_in_thread(
    folder: Path, before: WorkerProcess | None, executor: str | None = "executor_host_1"
) -> tuple[WorkerProcess, int, bytes]:
    (said,) = run_in_worker("app-1", executor, before, partial(lock_and_tell, folder), iter([0]))
    return read_from_worker(said)


def here(process: int) -> WorkerProcess:
    return WorkerProcess(os.uname().nodename, process)


def test_should_end_the_process_that_had_the_thread_before_and_still_holds_its_folder(start: Start, tmp_path: Path) -> None:
    other = start(PENSTOCK_THREAD="app-1")
    with pytest.raises(LockError):
        open_in_thread(tmp_path, None)
    process, ended, said = open_in_thread(tmp_path, here(other.pid))
    assert (process.process, ended, said) == (os.getpid(), other.pid, b"opened")
    assert other.wait(LIMIT) < 0


@pytest.mark.parametrize("environment", [{}, {"PENSTOCK_THREAD": "app-2"}, {"PENSTOCK_THREAD": "app-12"}])
def test_should_end_nobody_else(environment: dict[str, str], start: Start, tmp_path: Path) -> None:
    other = start(**environment)
    with pytest.raises(LockError):
        open_in_thread(tmp_path, here(other.pid))
    assert not end_daemon("app-1", other.pid)
    assert other.poll() is None


def test_should_end_nobody_on_another_host_or_in_a_second_attempt(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = start(PENSTOCK_THREAD="app-1")
    with pytest.raises(LockError):
        open_in_thread(tmp_path, WorkerProcess("elsewhere", other.pid))
    monkeypatch.setattr(worker_process, "_is_second_attempt", lambda: True)
    with pytest.raises(LockError):
        open_in_thread(tmp_path, here(other.pid))
    assert other.poll() is None


def test_should_end_nobody_and_open_nothing_on_another_executor(start: Start, tmp_path: Path) -> None:
    """On the same host: the process before is healthy, and has its folders open."""
    other = start(PENSTOCK_THREAD="app-1")
    with pytest.raises(MisplacedError, match="its job came to executor 1"):
        open_in_thread(tmp_path, here(other.pid), "executor_host_2")
    assert other.poll() is None


def test_should_go_on_where_the_process_before_is_gone_or_the_same(start: Start, tmp_path: Path) -> None:
    other = start(PENSTOCK_THREAD="app-1")
    other.kill()
    other.wait()
    assert open_in_thread(tmp_path, here(other.pid))[1] == 0
    assert open_in_thread(tmp_path, here(os.getpid()))[1] == 0
    assert not is_of_thread("app-1", other.pid)


def test_should_refuse_what_says_nothing_of_its_process() -> None:
    with pytest.raises(SerializationError):
        read_from_worker(b"anything")


@pytest.mark.parametrize("has_daemon", [True, False])
def test_should_end_what_is_left_of_a_thread_also_where_it_is_stopped(has_daemon: bool, start: Start, tmp_path: Path) -> None:
    left = start(leads=has_daemon, PENSTOCK_THREAD="app-1")
    left.send_signal(signal.SIGSTOP)
    end_left("app-1", WorkerProcess(os.uname().nodename, left.pid, left.pid if has_daemon else 0))
    FolderLock.acquire(tmp_path).release()
    assert left.wait(LIMIT) < 0


def test_should_leave_alone_what_is_not_left_of_the_thread(start: Start) -> None:
    other = start(leads=True, PENSTOCK_THREAD="app-2")
    end_left("app-1", WorkerProcess(os.uname().nodename, other.pid, other.pid))
    end_left("app-2", WorkerProcess("elsewhere", other.pid, other.pid))
    assert other.poll() is None
