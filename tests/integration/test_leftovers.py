"""What an application leaves to others while it runs and after its end: no open port, and no file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from penstock import DevBroker
from tests.harness.command_line import ROOT
from tests.harness.kafka import Kafka, unique
from tests.harness.sockets import listening
from tests.harness.waiting import LIMIT
from tests.integration.helpers import keyed, topics


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder for a process of its own; with a short name, for there are sockets in it."""
    folder = Path(mkdtemp(prefix="left-", dir="/tmp"))
    yield folder
    rmtree(folder)


@pytest.mark.slow
def test_should_listen_on_loopback_alone_and_leave_no_files(kafka: Kafka, tmp_path: Path, temporary: Path) -> None:
    source, sink = topics(kafka, "source", "sink")
    kafka.feed(source, keyed(["a"]))
    command = [sys.executable, "-m", "tests.integration.short_life", kafka.bootstrap_servers, unique("short"), source, sink]
    process = subprocess.Popen(
        [*command, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "killed\n"
        assert any(temporary.iterdir())  # it does use the folder
        kafka.feed(source, keyed(["a"]))
        output, _ = process.communicate("\n", timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    told = json.loads(output)
    assert told["closed"]
    assert (told["authenticate"], told["file"]) == ("true", "hello")
    assert len(told["jvm"]) >= 4  # the driver, its blocks, the UI, and the gateway
    for address in (*told["jvm"], *told["driver"]):
        assert address.rpartition(":")[0] == "127.0.0.1"
    assert sorted(path.name for path in temporary.rglob("*")) == []


def test_should_keep_a_development_broker_on_loopback(tmp_path: Path) -> None:
    with DevBroker(data_dir=tmp_path) as broker:
        assert broker._process is not None
        group = [
            int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _group(entry) == broker._process.pid
        ]
        addresses = [address for process in group for address in listening(process)]
    assert len(addresses) == 2  # for clients, and the controller
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}


def _group(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[2])
    except OSError:
        return 0
