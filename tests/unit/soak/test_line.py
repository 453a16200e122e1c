"""A line that can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.harness.line import Line
from tests.harness.waiting import LIMIT


@pytest.fixture
def echo() -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while piece := connection.recv(100):
                    connection.sendall(piece.upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(LIMIT)


def test_should_pass_nothing_while_it_is_cut_and_all_of_it_afterwards(echo: int) -> None:
    with Line(echo) as line, socket.create_connection(("127.0.0.1", line.port), 5) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"ONE"
        line.cut()
        client.settimeout(0.3)
        client.sendall(b"two")
        with pytest.raises(TimeoutError):
            client.recv(100)
        line.mend()
        client.settimeout(5)
        assert client.recv(100) == b"TWO"
        line.slow(0.05)
        client.sendall(b"three")
        assert client.recv(100) == b"THREE"


def test_should_end_a_connection_to_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with Line(free) as line, socket.create_connection(("127.0.0.1", line.port), 5) as client:
        assert client.recv(100) == b""
