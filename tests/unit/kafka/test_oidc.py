"""Tokens of an issuer: what is asked, what of its answers is taken, and that the secret goes nowhere else."""

from __future__ import annotations

import base64
import json
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import penstock.kafka.oidc as oidc
from penstock import BrokerAccessError, BrokerError, ConfigError
from penstock.kafka.oidc import Issuer, check_endpoint, source_of
from tests.harness.issuer import Issuer as RealIssuer
from tests.harness.secured import Certificates

SECRET = "cl1ent-s3cret"


def jwt(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def good(**claims: Any) -> bytes:
    return json.dumps({"access_token": jwt(**{"exp": time.time() + 60, "sub": "app", **claims})}).encode()


class Server:
    """Gives scripted answers (status, body, headers), the last one for ever, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        self.asked: list[tuple[str, dict[str, str], str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                server.asked.append((self.path, dict(self.headers), body))
                status, data, headers = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/token"

    def says(self, *answers: tuple[int, bytes] | tuple[int, bytes, dict[str, str]]) -> None:
        self.answers = [(answer[0], answer[1], answer[2] if len(answer) > 2 else {}) for answer in answers]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


def test_should_ask_as_librdkafka_does(server: Server) -> None:
    server.says((200, good()))
    issuer = Issuer(server.url, "app", SECRET, "orders payments", extensions=(("traceId", "7"),))
    token = source_of(issuer).current()
    assert (token.principal, token.extensions) == ("app", {"traceId": "7"})
    assert source_of(issuer) is source_of(Issuer(server.url, "app", SECRET, "orders payments", extensions=(("traceId", "7"),)))
    ((path, headers, body),) = server.asked
    assert (path, body) == ("/token", "grant_type=client_credentials&scope=orders+payments")
    assert headers["Authorization"] == "Basic " + base64.b64encode(f"app:{SECRET}".encode()).decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert headers["Accept"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, b'{"error": "invalid_client", "error_description": "not you"}'), r"refused.*'app'.*401: invalid_client, not you"),
        ((400, f'{{"error": "no {SECRET}\\u0007"}}'.encode()), r"400: no \[hidden\] "),
        ((403, b"<html>"), r"HTTP 403\)"),
        ((302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}), r"HTTP 302\)"),
        ((200, b"<html>"), "did not answer with JSON"),
        ((200, b"[1]"), "did not answer with JSON"),
        ((200, b"{}"), "without an access_token"),
        ((200, b'{"access_token": 5}'), "without an access_token"),
        ((200, b'{"access_token": "opaque"}'), r"not a JWT. .*sasl\.oauthbearer\.token\.provider"),
        ((200, good(exp=None)), "without an expiry"),
        ((200, good(exp=17)), "it expired at 1970"),
        ((200, good(sub=None)), r"without the claim sub. Set sasl\.oauthbearer\.sub\.claim\.name"),
    ],
)
def test_should_say_why_there_is_no_token(answer: Any, message: str, server: Server) -> None:
    server.says(answer)
    with pytest.raises(BrokerAccessError, match=message) as caught:
        source_of(Issuer(f"{server.url}?key={SECRET}", "app", SECRET)).current(30.0)
    assert server.url in str(caught.value)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert len(server.asked) == 1


def test_should_try_again_where_the_issuer_is_away(server: Server) -> None:
    server.says((503, b""), (429, b""), (200, good()))
    source = source_of(Issuer(server.url, "app", SECRET, "again"))
    assert source.current(30.0).principal == "app"
    server.says((500, b""))
    with pytest.raises(BrokerError, match=r"cannot return a token now \(HTTP 500\)") as caught:
        Issuer(server.url, "app", SECRET)()
    assert not isinstance(caught.value, BrokerAccessError)
    with pytest.raises(BrokerError, match=r"http://127\.0\.0\.1:1/token does not answer: .*refused") as caught:
        Issuer("http://127.0.0.1:1/token", "app", SECRET)()
    assert not isinstance(caught.value, BrokerAccessError)


def test_should_bound_what_it_waits_for_and_reads(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_MOST_BYTES", 1000)
    server.says((200, b"x" * 1001))
    with pytest.raises(BrokerError, match="longer than 1000 bytes"):
        Issuer(server.url, "app", SECRET)()
    monkeypatch.setattr(oidc, "_TIMEOUT", 0.2)
    server.says((200, b"{", {"Content-Length": "2"}))  # the rest never comes: the line stays open
    monkeypatch.setattr(BaseHTTPRequestHandler, "finish", lambda _: time.sleep(1))
    with pytest.raises(BrokerError, match="does not answer"):
        Issuer(server.url, "app", SECRET)()


def test_should_read_another_claim_as_the_subject(server: Server) -> None:
    server.says((200, good(sub=None, azp="app")))
    assert Issuer(server.url, "app", SECRET, subject_claim="azp")()[2] == "app"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with the openssl command")
def test_should_trust_the_authorities_it_is_told(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    with RealIssuer(tmp_path, {"app": SECRET}, certificate=certificates.broker) as real:
        trusted = Issuer(real.token_url, "app", SECRET, ca_location=str(certificates.authority))
        assert trusted()[2] == "app"
        assert Issuer(real.token_url, "app", SECRET, ca_pem=certificates.authority.read_text())()[2] == "app"
        with pytest.raises(BrokerAccessError, match=r"certificate that is not trusted.*https\.ca\.location"):
            Issuer(real.token_url, "app", SECRET)()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("issuer/token", "expected https://host/path"),
        ("ftp://issuer/token", "expected https://host/path"),
        ("https:///token", "expected https://host/path"),
        ("https://issuer:port/token", "is not an address"),
        ("https://issuer/to ken", "expected https://host/path"),
        ("https://me:s3cret@issuer/token", "must not hold a user"),
        ("issuer?key=s3cret", "expected https://host/path"),
    ],
)
def test_should_refuse_what_is_no_endpoint(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_endpoint(url)
    assert "s3cret" not in str(caught.value)


def test_should_warn_of_a_secret_in_the_clear(caplog: pytest.LogCaptureFixture) -> None:
    source_of(Issuer("http://login.example/token", "app", SECRET))
    assert "the token endpoint http://login.example/token is used without TLS" in caplog.text
    assert SECRET not in caplog.text + repr(Issuer("http://login.example/token", "app", SECRET))
