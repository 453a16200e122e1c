"""Each listener's own limits hold before those of the system do: a process has 1,024 open files by default."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.ids import TaskId
from penstock.peers.connection import PeerConnection
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from penstock.spark.identity import Identity
from penstock.spark.queries.channel import Address, connect
from penstock.wire import Codec
from tests.harness.identities import openssl_identity
from tests.harness.waiting import LIMIT

ROOT = Path(__file__).parents[2]
STRANGERS = 1_200
CODEC, KEY = Codec(TaskId), b"k" * 32
CONFINED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, 1_024))
{serve}
print(*address, sep="\t", flush=True)
sys.stdin.read()
"""
QUERY_SERVER = """
from tests.unit.client.web.served import Served
served = Served(Path(sys.argv[1]), "s3cret").serve()
address = served.service.host.host, served.service.host.port
"""
METRICS_SERVER = """
from tests.unit.client.metrics.test_server import serve
server = serve()
address = "127.0.0.1", server.port
"""
THREAD = """
from penstock.spark.identity import Identity
from penstock.spark.queries.listening import Listening
from tests.unit.test_open_files import CODEC, KEY, echo
known = [bytes.fromhex(part) for part in sys.argv[2:]]
where = dict(host="127.0.0.1", identity=Identity(*known)) if known else dict(folder=Path(sys.argv[1]))
listening = Listening("thread", KEY, CODEC, echo, **where)
address = ("127.0.0.1", listening.address) if known else (listening.address,)
"""


def echo(channel: object) -> None:
    """Answer what a reader asks with itself."""
    while True:
        channel.send(*channel.receive(LIMIT))  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2 * STRANGERS:
        pytest.skip(f"the tests may open {before[1]} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2 * STRANGERS), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Address]]:
    """Start a listener in a process with 1,024 open files, and return its address."""
    processes: list[subprocess.Popen[str]] = []

    def start(serve: str, *arguments: str) -> Address:
        command = [sys.executable, "-c", CONFINED.format(serve=serve), str(tmp_path), *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        host, *port = process.stdout.readline().rstrip("\n").split("\t")
        return (host, int(port[0])) if port else host

    yield start
    for process in processes:
        with process:
            process.kill()


@contextmanager
def strangers(address: Address) -> Iterator[None]:
    """More connections than the listener has files, of whom none says anything."""
    connected: list[socket.socket] = []
    try:
        for _ in range(STRANGERS):
            connected.append(socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET))
            connected[-1].connect(address)
        yield
    finally:
        for stranger in connected:
            stranger.close()


def test_should_answer_peers_while_strangers_hold_more_connections_than_the_query_server_has_files(
    start: Callable[..., Address],
) -> None:
    server = start(QUERY_SERVER)
    assert not isinstance(server, str)
    keys = PeerKeys.derive("s3cret", "app")
    with strangers(server):
        for _ in range(3):
            peer = PeerConnection(HostInfo(*server), keys, 30.0)
            assert peer.get("/api/stores", 1 << 20)[0] == 200
            peer.close()


def test_should_tell_metrics_while_strangers_hold_more_connections_than_the_server_has_files(
    start: Callable[..., Address],
) -> None:
    server = start(METRICS_SERVER)
    with strangers(server):
        for _ in range(3):
            with urllib.request.urlopen(f"http://{server[0]}:{server[1]}/metrics", timeout=LIMIT) as answer:
                assert answer.read() == b"one 1\n"


@pytest.mark.parametrize("identity", [None, openssl_identity], ids=["on this host", "on a cluster"])
def test_should_answer_the_driver_while_strangers_hold_more_connections_than_a_thread_has_files(
    start: Callable[..., Address], identity: Callable[[], Identity] | None
) -> None:
    """Stream threads and the driver's store locator listen alike."""
    known = None if identity is None else identity()
    thread = start(THREAD) if known is None else start(THREAD, known.certificate.hex(), known.key.hex())
    with strangers(thread):
        for number in range(3):
            with connect(thread, KEY, CODEC, known) as channel:
                channel.send("hello", TaskId(0, number))
                assert channel.receive(LIMIT) == ("hello", TaskId(0, number))
