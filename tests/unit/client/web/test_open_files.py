"""The server's own limits hold before those of the system do: a process has 1,024 open files by default."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.peers.connection import PeerConnection
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from tests.harness.waiting import LIMIT

ROOT = Path(__file__).parents[4]
STRANGERS = 1_200
SERVE = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, 1_024))
from tests.unit.client.web.served import Served
served = Served(Path(sys.argv[1]), "s3cret").serve()
print(served.service.host.host, served.service.host.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2 * STRANGERS:
        pytest.skip(f"the tests may open {before[1]} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2 * STRANGERS), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HostInfo]:
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split()
        yield HostInfo(host, int(port))
        process.kill()


@pytest.mark.usefixtures("many_files")
def test_should_answer_peers_while_strangers_hold_more_connections_than_it_has_files(server: HostInfo) -> None:
    keys, strangers = PeerKeys.derive("s3cret", "app"), []
    try:
        strangers.extend(socket.create_connection((server.host, server.port), timeout=LIMIT) for _ in range(STRANGERS))
        for _ in range(3):
            peer = PeerConnection(server, keys, 30.0)
            assert peer.get("/api/stores", 1 << 20)[0] == 200
            peer.close()
    finally:
        for stranger in strangers:
            stranger.close()
