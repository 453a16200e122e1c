"""Connections of the query server: how many there are, and how long each may let the server wait. Real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from penstock.client.web import connections, guard
from penstock.client.web.connections import Connection, ConnectionServer
from tests.harness.kafka import wait_until
from tests.harness.secured import Certificates
from tests.unit.client.web.served import Served

TOKEN = {"Authorization": "Bearer s3cret"}
FILE = b"GET /assets/topology.js HTTP/1.1\r\nHost: localhost\r\n\r\n"  # needs no token


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "s3cret").serve()
    yield served
    served.close()


@pytest.fixture
def strangers() -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for connection in opened:
        connection.close()


def connect(served: Served, strangers: list[socket.socket], sent: bytes = b"") -> socket.socket:
    """A connection that sends this and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.connect((served.service.host.host, served.service.host.port))
    connection.sendall(sent)
    strangers.append(connection)
    return connection


def open_connections(served: Served) -> list[Connection]:
    server: Any = served.service
    return list(server._server._server._open)


def assert_answers(served: Served, tls: ssl.SSLContext | None = None) -> None:
    for path in ("/api/app", "/metrics", "/api/stores", "/"):
        assert served.get(path, {**TOKEN, "Connection": "close"}, tls=tls)[0] == 200, path


def test_should_answer_everybody_while_most_connections_do_not_read(
    served: Served, strangers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    for _ in range(40):
        connect(served, strangers, FILE * 200)
        assert len(open_connections(served)) <= 8
    assert_answers(served)


def test_should_give_no_slot_to_clients_that_do_not_read(served: Served, strangers: list[socket.socket]) -> None:
    for _ in range(max(guard.SLOTS.values()) + 8):
        connect(served, strangers, FILE * 200)
    wait_until(lambda: any(one.is_unread for one in open_connections(served)), "answers are not read")
    for _ in range(10):
        assert_answers(served)


def test_should_abort_connections_whose_answer_is_not_read(
    served: Served, strangers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SEND_SECONDS", 0.2)
    for _ in range(5):
        connect(served, strangers, FILE * 200)
    connect(served, strangers, FILE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    connect(served, strangers, b"no HTTP at all\r\n\r\n")
    wait_until(lambda: not open_connections(served), "connections that do not read are aborted")
    assert_answers(served)


def test_should_go_on_with_the_next_request_when_the_answer_before_is_read(
    served: Served, strangers: list[socket.socket]
) -> None:
    connection = connect(served, strangers, FILE * 80 + FILE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    wait_until(lambda: any(one.is_unread for one in open_connections(served)), "answers are not read")
    connection.settimeout(60)
    received = b""
    while part := connection.recv(65_536):
        received += part
    assert received.count(b"HTTP/1.1 200 OK") == 81


def test_should_not_give_up_who_is_being_answered_for_who_is_not(
    served: Served, strangers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = connect(served, strangers, b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n")
    viewer.settimeout(60)
    assert viewer.recv(200).startswith(b"HTTP/1.1 200 OK")
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    for _ in range(20):
        connect(served, strangers, b"GET / HT")
    assert_answers(served)
    received = b""
    while b"event: time" not in received and b"event: change" not in received:
        part = viewer.recv(65_536)
        assert part, "the viewer's connection was given up"
        received += part


def test_should_count_connections_before_their_tls_handshake(
    tmp_path: Path, strangers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    (tmp_path / "certificates").mkdir()
    certificates = Certificates(tmp_path / "certificates")
    tls = {"application.server.ssl.certificate.location": str(certificates.broker)}
    served = Served(tmp_path / "served", "s3cret", config=tls).serve()
    try:
        for _ in range(40):
            connect(served, strangers)
        assert_answers(served, ssl.create_default_context(cafile=str(certificates.authority)))
        assert len(open_connections(served)) <= 8
        closed = 0
        for connection in strangers:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionError):
                closed += connection.recv(1) == b""
        assert closed >= 32
    finally:
        served.close()


def test_should_make_room_when_the_process_has_no_descriptors_left(caplog: pytest.LogCaptureFixture) -> None:
    class Exhausted(socket.socket):
        def accept(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    async def run() -> tuple[int, int]:
        with Exhausted() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            server = ConnectionServer(uvicorn.Config(lambda: None, lifespan="off", log_config=None), listening)
            server.config.load()
            waiting = [Connection(server.config, server.server_state, server._open.discard) for _ in range(3)]
            for number, connection in enumerate(waiting):
                connection.waits_since = float(number)
            server._open.update(waiting)
            server._accept()
            return len(server._open), int(waiting[0] in server._open)

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == (2, 0)
    assert "Too many open files" in caplog.text


def test_should_send_large_answers_in_pieces_and_whole() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run(body: bytes) -> list[Any]:
        sent.clear()
        sending = guard._in_pieces(send)
        await sending({"type": "http.response.start", "status": 200})
        await sending({"type": "http.response.body", "body": body})
        assert b"".join(message.get("body", b"") for message in sent) == body
        return [(len(message["body"]), message.get("more_body", False)) for message in sent[1:]]

    piece = guard.PIECE_BYTES
    assert asyncio.run(run(b"")) == [(0, False)]
    assert asyncio.run(run(b"x" * piece)) == [(piece, False)]
    assert asyncio.run(run(b"xy" * piece + b"z")) == [(piece, True), (piece, True), (1, False)]


def test_should_have_slots_of_its_own_for_status_and_metrics() -> None:
    held = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] not in ("/api/app", "/metrics"):
            await held.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(guarded: guard.Guard, path: str) -> tuple[int, Any]:
        answer: list[Any] = []

        async def send(message: Any) -> None:
            answer.append(message)

        headers = [(b"host", b"localhost")]
        scope = {
            "type": "http",
            "path": path,
            "method": "GET",
            "headers": headers,
            "query_string": b"",
            "raw_path": path.encode(),
        }
        await guarded(scope, lambda: None, send)  # type: ignore[arg-type, return-value]
        return answer[0]["status"], json.loads(answer[1]["body"])

    async def run() -> None:
        guarded = guard.Guard(app, None, "localhost")
        slots = [("/", "files"), ("/api/settings", "requests"), ("/api/stores/counts/range", "queries")]
        waiting = [asyncio.create_task(ask(guarded, path)) for path, kind in slots for _ in range(guard.SLOTS[kind])]
        await asyncio.sleep(0)
        for path, kind in slots:
            status, found = await ask(guarded, path)
            assert (status, f"{kind} are being answered" in found["error"]) == (503, True)
        assert [(await ask(guarded, path))[0] for path in ("/api/app", "/metrics")] == [200, 200]
        held.set()
        assert {status for status, _ in await asyncio.gather(*waiting)} == {200}

    asyncio.run(run())
