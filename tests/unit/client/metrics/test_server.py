"""The server of metrics: the same limits and the same guard as the query server's."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from penstock import ConfigError, StreamsConfig, StreamsError
from penstock.client.metrics.server import MetricsServer
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT


def serve(host: str = "127.0.0.1", token: str = "", plaintext: str = "false") -> MetricsServer:
    settings = {
        "application.id": "app",
        "bootstrap.servers": "localhost:9",
        "metrics.host": host,
        "metrics.port": 0,
        "application.server.token": token,
        "application.server.plaintext.allowed": plaintext,
    }
    return MetricsServer(StreamsConfig(settings), lambda: "one 1\n", "metrics")


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    server = serve()
    yield server
    server.close()


def get(server: MetricsServer, headers: dict[str, str] | None = None, path: str = "/metrics") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    try:
        connection.putrequest("GET", path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_should_answer_while_six_hundred_requests_are_half_open(server: MetricsServer) -> None:
    before = threading.active_count()
    half_open = []
    try:
        for _ in range(600):
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            half_open.append(connection)
        assert get(server) == (200, b"one 1\n")
        assert threading.active_count() < before + 10
    finally:
        for connection in half_open:
            connection.close()
    wait_until(lambda: get(server) == (200, b"one 1\n"), "it answers afterwards")


def test_should_answer_only_this_host_under_a_name_of_its_own(server: MetricsServer) -> None:
    assert get(server, {"Host": "evil.example"})[0] == 403
    assert get(server, {"Host": "localhost"})[0] == 200
    assert get(server, {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert get(server, {"Origin": "https://evil.example"})[0] == 403
    assert get(server, {"Content-Length": "1000000"})[0] == 413
    assert get(server, path="/")[0] == 404


def test_should_ask_for_the_token_where_there_is_one() -> None:
    server = serve("0.0.0.0", "secret", plaintext="true")
    try:
        assert get(server)[0] == 401
        assert get(server, {"Authorization": "Bearer wrong"})[0] == 401
        assert get(server, {"Authorization": "Bearer secret", "Host": "prometheus.example"}) == (200, b"one 1\n")
    finally:
        server.close()


def test_should_refuse_addresses_that_others_can_reach_without_a_token() -> None:
    with pytest.raises(ConfigError, match=r"application\.server\.token"):
        serve("0.0.0.0")
    with pytest.raises(ConfigError, match=r"plain text: set application\.server\.ssl"):
        serve("0.0.0.0", "secret")
    with pytest.raises(ConfigError, match="not known"):
        serve("no-such-host.invalid", "secret")
    with pytest.raises(StreamsError, match=r"metrics\.host = '192\.0\.2\.1'"):
        serve("192.0.2.1", "secret", plaintext="true")


def test_should_be_read_anew_and_only_read(server: MetricsServer) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=LIMIT) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", b"", timeout=LIMIT)
