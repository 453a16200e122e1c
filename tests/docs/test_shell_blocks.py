"""The shell blocks of the README and of getting started run as they stand, on a fresh broker, and print what the pages say."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.waiting import LIMIT, wait_until

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
LASTING = {"penstock broker": "ready ", "penstock run": "running"}
"""Commands that run until Ctrl-C, and what each prints when it is ready."""
ELSEWHERE = ("pip install", "make ", "penstock demo")
"""What other tests run: the wheel, the targets of the Makefile, the demo."""
BY_DEFAULT = re.compile(r"\bpenstock (produce|consume|topics \w+) ")
"""Commands that use localhost:9092 where they are given no brokers."""

pytestmark = pytest.mark.integration


class Terminal:
    """Runs the blocks of a page in one folder, with addresses that are free instead of those of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._addresses = {"9092": _free_port(), "8080": _free_port()}
        self._running: list[subprocess.Popen[bytes]] = []
        programs = folder / "bin"
        programs.mkdir()
        (programs / "penstock").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock.cli "$@"\n')
        (programs / "pytest").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pytest "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        self._environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(folder), "COLUMNS": "200"}

    def adapted(self, text: str) -> str:
        """The text of a page with this terminal's ports."""
        for usual, ours in self._addresses.items():
            text = re.sub(rf"\b(localhost|127\.0\.0\.1):{usual}\b", rf"\g<1>:{ours}", text)
        return text

    def run(self, block: str) -> str:
        """Run a block; what it has printed when it has ended, or when it is ready."""
        lasting = next((sign for command, sign in LASTING.items() if block.startswith(command)), None)
        command = BY_DEFAULT.sub(lambda found: f"{found[0]}-c bootstrap.servers=localhost:9092 ", block)
        command = command.replace("penstock broker", "penstock broker --port 9092")
        command = self.adapted(command).replace("--port 9092", f"--port {self._addresses['9092']}")
        if lasting is None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            return done.stdout
        return self._start(command, lasting)

    def _start(self, command: str, sign: str) -> str:
        printed, said = (self.folder / f"{len(self._running)}.{name}" for name in ("printed", "said"))
        with printed.open("w") as output, said.open("w") as errors:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self._environment, stdout=output, stderr=errors
            )
        self._running.append(process)
        wait_until(lambda: sign in printed.read_text() or process.poll() is not None, f"{command} is ready")
        assert process.poll() is None, f"{command}\n{printed.read_text()}\n{said.read_text()}"
        return printed.read_text()

    def end(self) -> list[int]:
        """Press Ctrl-C everywhere, the last command first; the exit codes."""
        codes = []
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
            codes.append(process.wait(LIMIT))
        self._running.clear()
        return codes


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.end()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _shown(expected: str) -> str:
    """A pattern of the output that a page shows: … stands for what differs from run to run, and moves the columns after it."""
    return re.sub(r"(\\ ){2,}", " +", re.escape(expected)).replace("…", "[^\n]*")


def _is_elsewhere(block: str) -> bool:
    return any(line.startswith(ELSEWHERE) for line in block.splitlines())


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_should_run_every_shell_block_and_print_what_the_page_shows(page: str, terminal: Terminal) -> None:
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert not [code for language, code in blocks if not language], "every block names its language: sh, text, python, toml"
    printed: str | None = None
    ran = 0
    for language, code in blocks:
        if language in ("python", "toml") and (name := FILE.match(code)):
            (terminal.folder / name[1]).write_text(terminal.adapted(code))
        elif language == "text" and printed is not None:
            assert re.fullmatch(_shown(terminal.adapted(code)), printed), (
                f"the page shows\n{code}\nand this is printed\n{printed}"
            )
        elif language == "sh" and not _is_elsewhere(code):
            ran += 1
            printed = terminal.run(code)
    assert ran > 3
    assert set(terminal.end()) == {0}
