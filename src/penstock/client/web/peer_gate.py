"""The server side of the authentication between instances (`peers/session.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from penstock.peers.proofs import PeerKeys
from penstock.peers.session import PARTS_HEADER, PEER_PATH, PROOF_HEADER, AnsweringSessions, Exchange
from penstock.query.metadata import HostInfo

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]


class PeerGate:
    """Distinguishes requests of other instances from those of readers."""

    def __init__(self, keys: PeerKeys, here: HostInfo) -> None:
        self._sessions = AnsweringSessions(keys.peer, str(here))

    @staticmethod
    def is_opening(scope: Scope) -> bool:
        """Return True for the first request of a handshake, which is allowed without authentication."""
        bodies = (b"content-length", b"transfer-encoding")
        return (
            scope["method"] == "GET"
            and scope["path"] == PEER_PATH
            and len(scope["query_string"]) < 200
            and not any(name in bodies for name, _ in scope["headers"])
        )

    def answer_opening(self, scope: Scope) -> tuple[int, dict[str, str]]:
        """Return a status and a session with the proof that this instance knows the token."""
        nonces = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=4).get("nonce", [""])
        found = self._sessions.answer_opening(nonces[0])
        if found is None:
            return 400, {"error": "instances of the application send a nonce of 64 hexadecimal digits"}
        return 200, {"session": found[0], "proof": found[1]}

    def admit(self, scope: Scope) -> Peer | None:
        """Return the authenticated instance, None if the request is not authenticated or was received before."""
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if not authorization.startswith(b"Penstock ") or scope["method"] != "GET":
            return None
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope["query_string"]
        exchange = self._sessions.admit(authorization, scope["method"], path + b"?" + query if query else path)
        return None if exchange is None else Peer(exchange)


class Peer:
    """An authenticated instance that waits for an answer."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def sealing(self, send: Send) -> Send:
        """Return a `send` that adds proofs: one for the whole answer, or one for each part of a streamed one."""
        return _Sealing(self._exchange, send)


class _Sealing:
    def __init__(self, exchange: Exchange, send: Send) -> None:
        self._exchange, self._send = exchange, send
        self._start: Message = {}
        self._number = 0
        self._in_parts = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # sent with the first part of the body
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        body, more = bytes(message.get("body", b"")), bool(message.get("more_body", False))
        if not self._in_parts and not more:
            proof = self._exchange.answer_proof(self._start["status"], body).hex().encode()
            await self._begin((PROOF_HEADER.lower().encode(), proof))
            await self._send(message)
            return
        if not self._in_parts:
            self._in_parts = True
            await self._begin((PARTS_HEADER.lower().encode(), b"1"))
        head = self._exchange.part_head(self._start["status"], self._number, not more, body)
        self._number += 1
        await self._send({**message, "body": head + body})

    async def _begin(self, header: tuple[bytes, bytes]) -> None:
        await self._send({**self._start, "headers": [*self._start.get("headers", ()), header]})
