"""An authenticated connection to another instance."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.peers.addresses import is_loopback
from penstock.peers.proofs import PeerKeys, matches
from penstock.peers.session import (
    PART_HEAD_BYTES,
    PARTS_HEADER,
    PROOF_HEADER,
    AskingSession,
    Exchange,
    UnprovenError,
    read_part_head,
)
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import peer_connection
from penstock.runtime.queries.deadline import current

FORWARDED = "X-Penstock-Forwarded"
"""Marks requests between instances: the instance answers from its local state only."""

_MAX_OPENING = 4_096
_OPENING_SECONDS = 10.0
_SHORTEST = 0.001  # a timeout of 0 would mean non-blocking
_PART = 65_536


def connect(host: HostInfo, timeout: float, tls: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    """Open a connection, with TLS if given. Nothing is sent yet."""
    connection = peer_connection(host.host, host.port, tls, max(_SHORTEST, timeout))
    connection.connect()
    return connection


class PeerConnection:
    """Sends requests to one instance, one after another.

    With keys both sides prove that they know the token, and all answers are signed. Without keys only this host is allowed.
    """

    def __init__(self, host: HostInfo, keys: PeerKeys | None, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        self._session: AskingSession | None = None
        self._connection = connect(host, timeout, tls)
        try:
            if keys is None:
                self._refuse_other_hosts()
            else:
                self._open(AskingSession(keys.peer, str(host)))
        except BaseException:
            self.close()
            raise

    def wait_at_most(self, seconds: float) -> None:
        """Set the timeout for each further part of the answers."""
        self._connection.timeout = max(_SHORTEST, seconds)
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._connection.timeout)

    def get(self, target: str, limit: int) -> tuple[int, bytes]:
        """Return status and body. The signature is verified."""
        response, exchange = self._ask(target)
        return response.status, self._body(response, exchange, limit)

    @contextmanager
    def stream(self, target: str, limit: int) -> Iterator[tuple[int, io.BufferedIOBase]]:
        """Yield the status and the streamed body. Each part is verified before it is read."""
        response, exchange = self._ask(target)
        if exchange is None:
            yield response.status, response
        elif response.getheader(PARTS_HEADER) is None:
            yield response.status, io.BytesIO(self._body(response, exchange, limit))
        else:
            yield response.status, io.BufferedReader(_Parts(response, exchange))

    def close(self) -> None:
        self._connection.close()

    def _ask(self, target: str) -> tuple[http.client.HTTPResponse, Exchange | None]:
        headers, exchange = {FORWARDED: "1"}, None
        if self._session is not None:
            exchange, headers["Authorization"] = self._session.request("GET", target.encode("ascii"))
        self._connection.request("GET", target, headers=headers)
        return self._connection.getresponse(), exchange

    def _body(self, response: http.client.HTTPResponse, exchange: Exchange | None, limit: int) -> bytes:
        body = _all_of(response, limit)
        if exchange is not None:
            try:
                proof = bytes.fromhex(response.getheader(PROOF_HEADER) or "")
            except ValueError:
                proof = b""
            if not matches(proof, exchange.answer_proof(response.status, body)):
                raise UnprovenError(f"its answer with status {response.status} has no valid signature")
        return body

    def _open(self, session: AskingSession) -> None:
        with self._limited():
            self._connection.request("GET", session.opening)
            response = self._connection.getresponse()
            body = response.read(_MAX_OPENING)
            response.read(1)
        found = _json(body) if response.status == 200 else None
        if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("session", "proof")):
            raise UnprovenError(
                f"it answered with status {response.status} instead of proving that it knows the application's token"
            )
        session.open(found["session"], found["proof"])
        self._session = session

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit the time of the handshake: a stranger that sends single bytes never triggers a socket timeout."""

        def give_up() -> None:
            with contextlib.suppress(OSError, AttributeError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(_OPENING_SECONDS, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _refuse_other_hosts(self) -> None:
        address = str(self._connection.sock.getpeername()[0])
        if not is_loopback(address.partition("%")[0]):
            raise UnprovenError(f"{address} is another host: instances on other hosts need application.server.token")


class _Parts(io.RawIOBase):
    """The verified parts of a streamed answer. An answer without its last part is an error."""

    def __init__(self, response: http.client.HTTPResponse, exchange: Exchange) -> None:
        self._response, self._exchange = response, exchange
        self._part = memoryview(b"")
        self._number = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._part and not self._ended:
            self._next()
        size = min(len(buffer), len(self._part))
        buffer[:size] = self._part[:size]
        self._part = self._part[size:]
        return size

    def _next(self) -> None:
        last, size, proof = read_part_head(self._exactly(PART_HEAD_BYTES))
        part = self._exactly(size)
        self._exchange.check_part(self._response.status, self._number, last, part, proof)
        self._number += 1
        self._part, self._ended = memoryview(part), last

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            some = self._response.read(min(size - len(found), 1 << 20))
            if not some:
                raise UnprovenError("its answer ended before the last part")
            found += some
        return bytes(found)


def _all_of(response: http.client.HTTPResponse, limit: int) -> bytes:
    """Read a whole answer. Raises an error if the caller's deadline passes."""
    found = bytearray()
    while part := response.read1(_PART):
        current().check()
        found += part
        if len(found) > limit:
            raise http.client.HTTPException(f"its answer is larger than {limit} bytes")
    response.read()  # the connection can be reused only after its end was read
    return bytes(found)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
