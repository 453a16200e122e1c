from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import scratch
from penstock.scratch import ScratchFolder, sweep

MAKE = """
import sys
from penstock.scratch import ScratchFolder
folder = ScratchFolder("made-", sys.argv[1])
(folder.path / "file").write_text("text")
print(folder.path, flush=True)
"""

Start = Callable[[str], "tuple[subprocess.Popen[str], Path]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Run a process that makes a folder in `tmp_path`, and then what it is told to."""
    started: list[subprocess.Popen[str]] = []

    def run(then: str) -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, "-c", MAKE + then, str(tmp_path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_YOUNG_SECONDS", -1.0)


def test_should_remove_a_folder_when_it_is_closed(tmp_path: Path) -> None:
    folder = ScratchFolder("made-", tmp_path)
    (folder.path / "file").write_text("text")
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("then", ["", "raise SystemExit(3)", "raise ValueError('of the user')"])
def test_should_remove_a_folder_at_the_end_of_its_process(start: Start, then: str, tmp_path: Path) -> None:
    process, folder = start(then)
    process.communicate()
    assert folder.name.startswith("made-")
    assert list(tmp_path.iterdir()) == []


def test_should_not_remove_a_folder_with_a_forked_child(start: Start) -> None:
    fork = "import os\nchild = os.fork()\nif not child: raise SystemExit\nos.waitpid(child, 0)\n"
    process, folder = start(fork + "print('forked', flush=True)\ninput()")
    assert process.stdout is not None
    assert process.stdout.readline() == "forked\n"
    assert folder.is_dir()


@pytest.mark.usefixtures("no_patience")
def test_should_remove_what_a_killed_process_left_and_nothing_else(start: Start, tmp_path: Path) -> None:
    killed, left = start("input()")
    _, used = start("input()")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    unknown, other = tmp_path / "made-unknown", tmp_path / "other"
    unknown.mkdir()
    other.mkdir()
    (tmp_path / "made-link").symlink_to(other)
    own = ScratchFolder("made-", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {used.name, own.path.name, unknown.name, other.name, "made-link"}
    assert not left.exists()
    sweep("made-", tmp_path)
    assert own.path.is_dir()
    own.close()


def test_should_leave_what_is_young(start: Start, tmp_path: Path) -> None:
    killed, left = start("input()")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    sweep("made-", tmp_path)
    assert left.is_dir()
    os.utime(left, (0, 0))
    sweep("made-", tmp_path)
    assert not left.exists()
