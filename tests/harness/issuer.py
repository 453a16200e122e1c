"""An OpenID Connect issuer of our own: signed tokens for clients that know their secret, and the key to check them with."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.harness.waiting import LIMIT


class Issuer:
    """Listens on this machine until closed; a context manager. `lives` says for how many seconds a client's tokens are good."""

    def __init__(
        self, folder: Path, clients: Mapping[str, str], lives: Mapping[str, int] | None = None, certificate: Path | None = None
    ) -> None:
        self.issued: Counter[str] = Counter()
        self.forms: list[dict[str, list[str]]] = []
        self._key = folder / "issuer.key"
        self._clients, self._lives = dict(clients), dict(lives or {})
        _openssl("genrsa", "-out", str(self._key), "2048")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._answer(*issuer.token_for(self.headers.get("Authorization", ""), form))

            def do_GET(self) -> None:
                self._answer(200, issuer.keys())

            def _answer(self, status: int, body: Mapping[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, name="issuer", daemon=True)
        self._thread.start()

    @property
    def token_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}/token"

    @property
    def keys_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}/keys"

    def __enter__(self) -> Issuer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token_for(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Status and answer of a request for a token."""
        self.forms.append(form)
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self._clients.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": f"no client {client} with the secret {secret}"}
        self.issued[client] += 1
        life = self._lives.get(client, 3600)
        return 200, {"access_token": self.signed(client, life), "token_type": "Bearer", "expires_in": life}

    def signed(self, subject: str, life: int) -> str:
        """A token for whoever it is."""
        now = int(time.time())
        claims = {"iss": "penstock-tests", "sub": subject, "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + life}
        text = f"{_encoded({'alg': 'RS256', 'typ': 'JWT', 'kid': 'one'})}.{_encoded(claims)}"
        return f"{text}.{_base64(_openssl('dgst', '-sha256', '-sign', str(self._key), given=text.encode()))}"

    def keys(self) -> dict[str, Any]:
        """What brokers check signatures with."""
        modulus = _openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip().partition("=")[2]
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": _base64(bytes.fromhex(modulus)), "e": "AQAB"}
        return {"keys": [key]}


def token_from(url: str, client: str, secret: str) -> tuple[str, float]:
    """A token and when it expires: a provider as users write them."""
    credentials = base64.b64encode(f"{client}:{secret}".encode()).decode()
    request = urllib.request.Request(url, b"grant_type=client_credentials", {"Authorization": f"Basic {credentials}"})
    with urllib.request.urlopen(request, timeout=LIMIT) as response:
        answer = json.load(response)
    return answer["access_token"], time.time() + answer["expires_in"]


def token_in_one_process(process: int, url: str, client: str, secret: str) -> tuple[str, float]:
    """The same for a provider that finds its credentials in one process alone."""
    if os.getpid() != process:
        raise RuntimeError("no credentials here")
    return token_from(url, client, secret)


def _openssl(*arguments: str, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *arguments], input=given, check=True, capture_output=True).stdout


def _encoded(claims: Mapping[str, Any]) -> str:
    return _base64(json.dumps(claims).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
