"""The checks of every request: permissions, size, concurrency, time."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any

from penstock.client.web import cross_site
from penstock.client.web.asgi import App, Receive, Scope, Send
from penstock.client.web.page import ASSETS
from penstock.client.web.peer_gate import PeerGate
from penstock.client.web.time_limit import TimeLimit
from penstock.peers.addresses import is_loopback

MAX_TARGET = 8_192
"""The longest path and query, in bytes."""

MAX_BODY = 64 * 1024
PIECE_BYTES = 64 * 1024
"""Larger answers are sent in pieces, each after the client has read most of the previous ones."""

SMALL_ANSWER = 256 * 1024
"""An answer up to this size releases its slot before it is sent: a client that does not read uses only a connection."""

MAX_VIEWERS = 16
SLOTS = {"queries": 64, "requests": 32, "status requests": 8, "metrics requests": 8, "files": 32, "viewers": MAX_VIEWERS}
"""Concurrent requests by kind. Kinds have separate slots."""

REQUEST_SECONDS = 15.0
SEND_SECONDS = 20.0
TABLE_SECONDS = 600.0
VIEWER_SECONDS = 12 * 3600.0

DEADLINE = "penstock.deadline"
"""The scope's key of the request's `Deadline`, which ends when the client disconnects."""

EVENTS_PATH = "/api/events"

# The console itself contains no data. It sends the token with its requests.
_OPEN_PATHS = frozenset({"/", *ASSETS})

_KINDS = {
    EVENTS_PATH: "viewers",
    "/api/app": "status requests",
    "/metrics": "metrics requests",
    **dict.fromkeys(("/api/stores", "/api/settings", "/openapi.json"), "requests"),
    **dict.fromkeys(_OPEN_PATHS, "files"),
}

_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    *cross_site.HEADERS,
]


class Guard:
    """Refuses requests before the application sees them.

    Without a token, only clients on this host are allowed, and only with a host name of this host: a DNS name that was
    pointed here is refused (DNS rebinding). Pages of other sites are always refused (`client/web/cross_site.py`).
    """

    def __init__(
        self, app: App, token: str | None, host: str, peers: PeerGate | None = None, writes: Collection[str] = ()
    ) -> None:
        self._app = app
        self._writes = frozenset(writes)
        self._token = token
        self._host = host
        self._peers = peers
        self._running = dict.fromkeys(SLOTS, 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward or refuse a request."""
        if scope["type"] != "http":
            return
        peer, send = None, _in_pieces(send)
        if self._peers is not None:
            if self._peers.is_opening(scope):
                await _send_whole(send, *self._peers.answer_opening(scope))
                return
            peer = self._peers.admit(scope)
            if peer is not None:
                send = peer.sealing(send)
        refusal = self._refusal(scope, peer is not None)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        kind = _kind(scope)
        slot = _Slot(self._running, kind)
        try:
            # Tables and events may take longer. Their parts are sent one by one, each with a time limit.
            longer = VIEWER_SECONDS if kind == "viewers" else TABLE_SECONDS if scope["path"].endswith("/table") else None
            sending = _PatientSend(send, None if longer is None else SEND_SECONDS, slot)
            try:
                async with TimeLimit(longer or REQUEST_SECONDS + SEND_SECONDS):
                    await self._app(scope, receive, sending)
            except TimeoutError:
                if not sending.started:
                    await _answer(send, 503, f"the answer took longer than {REQUEST_SECONDS:.0f} s")
        finally:
            slot.give_back()

    def _refusal(self, scope: Scope, is_peer: bool) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET:
            return 414, f"the address is longer than {MAX_TARGET} bytes"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY or b"transfer-encoding" in headers:
            return 413, "a query has no body"
        foreign = cross_site.refusal_of(scope["path"], headers)
        if foreign is not None:
            return foreign
        if scope["path"] not in _OPEN_PATHS and not is_peer:
            unknown = self._refuse_stranger(headers)
            if unknown is not None:
                return unknown
        if scope["path"] in self._writes:
            refusal = self._refuse_write(scope["method"], headers)
            if refusal is not None:
                return refusal
        elif scope["method"] not in ("GET", "HEAD"):
            return 405, f"{scope['method']} is not allowed: queries only read, use GET"
        kind = _kind(scope)
        if self._running[kind] >= SLOTS[kind]:
            return 503, f"{SLOTS[kind]} {kind} are being answered; ask again later"
        return None

    def _refuse_write(self, method: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Refuse a write without the token, or one that an HTML form could send."""
        if self._token is None:
            return 403, "set application.server.token: without one nothing can be changed from here"
        if not headers.get(b"authorization", b"").lower().startswith(b"bearer "):
            return 401, "send the application's token: Authorization: Bearer <application.server.token>"
        if method != "POST":
            return 405, f"{method} is not allowed: use POST"
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            return 415, "what is sent should be application/json"
        return None

    def _refuse_stranger(self, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        if self._token is not None:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not secrets.compare_digest(given.strip(), self._token.encode()):
                return 401, "send the application's token: Authorization: Bearer <application.server.token>"
        elif not self._is_name_of_here(headers.get(b"host", b"").decode("latin-1")):
            return 403, "without a token only this host may ask, under a name of its own"
        return None

    def _is_name_of_here(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.strip("[]").lower() in ("", self._host.lower(), "localhost") or is_loopback(name.strip("[]"))


def _kind(scope: Scope) -> str:
    return _KINDS.get(scope["path"], "queries")


def _in_pieces(send: Send) -> Send:
    """Send a large body in pieces, so that unread data count as part of the request."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        body = message.get("body", b"")
        last = max(0, len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            await send({**message, "body": body[start : start + PIECE_BYTES], "more_body": True})
        await send({**message, "body": body[last:]} if last else message)

    return sending


class _Slot:
    """A slot for one concurrent request of a kind."""

    def __init__(self, running: dict[str, int], kind: str) -> None:
        self._running, self._kind = running, kind
        self._taken = True
        running[kind] += 1

    def give_back(self) -> None:
        """Release the slot. Later calls do nothing."""
        if self._taken:
            self._taken = False
            self._running[self._kind] -= 1


class _PatientSend:
    """Sends to a client with a time limit for each part, or for the whole answer."""

    def __init__(self, send: Send, seconds: float | None, slot: _Slot) -> None:
        self._send = send
        self._seconds = seconds
        self._slot = slot
        self.started = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if not self.started:
            self.started = True
            message = {**message, "headers": [*message.get("headers", ()), *cross_site.HEADERS]}
        elif not message.get("more_body", False) and len(message.get("body", b"")) <= SMALL_ANSWER:
            self._slot.give_back()
        if self._seconds is None:
            await self._send(message)
        else:
            async with TimeLimit(self._seconds):
                await self._send(message)


async def _answer(send: Send, status: int, reason: str) -> None:
    extra = [(b"www-authenticate", b"Bearer")] if status == 401 else [(b"allow", b"GET, HEAD")] if status == 405 else []
    # Close the connection, because the request may have an unread body.
    await _send_whole(send, status, {"error": reason}, [*extra, (b"connection", b"close")])


async def _send_whole(send: Send, status: int, found: Any, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    body = json.dumps(found).encode()
    headers = [*_HEADERS, *extra, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
