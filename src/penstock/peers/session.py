"""The authentication between two instances before any request. It needs no synchronized clocks.

    client                                     server
     │  GET /api/peer?nonce=<its nonce>         │
     │ ────────────────────────────────────────►│   keeps no state for an unknown client
     │  session (both nonces), proof            │
     │ ◄──────────────────────────────────────  │   the proof covers the session and the server's address
     │  GET /api/stores/…                       │
     │  Authorization: Penstock session n proof │   the proof covers n, method and target
     │ ────────────────────────────────────────►│   n must grow: repeated requests are refused
     │  status, body, proof                     │
     │ ◄──────────────────────────────────────  │   the proof covers n, method, target, status and body

The session's key includes the server's address, so that a proof cannot be forwarded to another instance. A session belongs to
one connection of the client, whose requests are sequential.
"""

from __future__ import annotations

import base64
import binascii
import math
import secrets
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from penstock.clock import monotonic
from penstock.peers.proofs import PROOF_BYTES, mac, matches

PEER_PATH = "/api/peer"
SCHEME = "Penstock"
PROOF_HEADER = "X-Penstock-Proof"
PARTS_HEADER = "X-Penstock-Parts"
"""Marks a body that consists of parts with their own proofs."""

NONCE_BYTES = 32
SESSION_SECONDS = 3_600.0
"""The lifetime of a session without requests."""
MAX_SESSIONS = 4_096
MAX_PART = 256 * 1024 * 1024

_ISSUED = struct.Struct(">d")
_PART = struct.Struct(">?I")
PART_HEAD_BYTES = _PART.size + PROOF_BYTES
_MAX_COUNT = 1 << 62


class UnprovenError(OSError):
    """The peer did not prove that it knows the token."""


@dataclass(frozen=True)
class Exchange:
    """One request of a session, equal on both sides."""

    key: bytes
    count: int
    method: str
    target: bytes

    def request_proof(self) -> bytes:
        """Return the proof of the request."""
        return mac(self.key, "request", self.count, self.method, self.target)

    def answer_proof(self, status: int, body: bytes) -> bytes:
        """Return the proof of a whole answer."""
        return mac(self.key, "answer", self.count, self.method, self.target, status, body)

    def part_head(self, status: int, number: int, last: bool, part: bytes) -> bytes:
        """Return the header of a part of an answer."""
        return _PART.pack(last, len(part)) + self._part_proof(status, number, last, part)

    def check_part(self, status: int, number: int, last: bool, part: bytes, proof: bytes) -> None:
        """Raise UnprovenError for a part that is forged or out of order."""
        if not matches(proof, self._part_proof(status, number, last, part)):
            raise UnprovenError(f"part {number} of its answer has no valid proof")

    def _part_proof(self, status: int, number: int, last: bool, part: bytes) -> bytes:
        return mac(self.key, "part", self.count, self.method, self.target, status, number, int(last), part)


def read_part_head(head: bytes) -> tuple[bool, int, bytes]:
    """Decode a part's header: last part or not, size, proof."""
    last, size = _PART.unpack_from(head)
    if size > MAX_PART:
        raise UnprovenError(f"a part of its answer claims {size} bytes")
    return last, size, head[_PART.size :]


class AskingSession:
    """The client side of a session, one for each connection."""

    def __init__(self, key: bytes, host: str) -> None:
        self._key, self._host = key, host
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._session = ""
        self._session_key = b""
        self._count = 0

    @property
    def opening(self) -> str:
        """The target of the first request. It contains only a nonce."""
        return f"{PEER_PATH}?nonce={self._nonce.hex()}"

    def open(self, session: str, proof: str) -> None:
        """Verify the answer to the first request. Raises UnprovenError if the server does not know the token."""
        raw = _session_bytes(session)
        if raw is None or raw[:NONCE_BYTES] != self._nonce:
            raise UnprovenError("its answer belongs to another request")
        if not matches(_proof_bytes(proof), _server_proof(self._key, raw, self._host)):
            raise UnprovenError("it did not prove that it knows the application's token")
        self._session, self._session_key = session, _session_key(self._key, raw, self._host)

    def request(self, method: str, target: bytes) -> tuple[Exchange, str]:
        """Return the next request and its Authorization header."""
        self._count += 1
        exchange = Exchange(self._session_key, self._count, method, target)
        return exchange, f"{SCHEME} {self._session} {self._count} {exchange.request_proof().hex()}"


@dataclass(frozen=True)
class _Kept:
    count: int
    issued: float
    used: float


class AnsweringSessions:
    """The server side: all sessions with this instance.

    The server keeps only the last number of each session, so that no request is answered twice, and only for sessions that
    have proved the token, so that strangers use no memory.

    It keeps at most `MAX_SESSIONS`; a new one replaces the least recently used, which is refused from then on. An unknown
    session must therefore be younger than all replaced ones.
    """

    def __init__(self, key: bytes, host: str, now: Callable[[], float] = monotonic) -> None:
        self._key, self._host, self._now = key, host, now
        self._own = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._given_up = -math.inf
        """The issue time of the youngest replaced session."""

    def answer_opening(self, nonce: str) -> tuple[str, str] | None:
        """Return a session and its proof, None for a malformed nonce."""
        try:
            theirs = bytes.fromhex(nonce)
        except ValueError:
            return None
        if len(theirs) != NONCE_BYTES or len(nonce) != 2 * NONCE_BYTES:
            return None
        body = theirs + secrets.token_bytes(NONCE_BYTES) + _ISSUED.pack(self._now())
        raw = body + mac(self._own, "session", body)
        return base64.urlsafe_b64encode(raw).decode(), _server_proof(self._key, raw, self._host).hex()

    def admit(self, authorization: bytes, method: str, target: bytes) -> Exchange | None:
        """Return the exchange of a request, None if it is not authenticated or was received before."""
        try:
            scheme, session, count, proof = authorization.decode("ascii").split(" ")
        except ValueError:
            return None
        raw = _session_bytes(session)
        if scheme != SCHEME or raw is None or not count.isdigit() or len(count) > 18 or not 0 < int(count) < _MAX_COUNT:
            return None
        body, tag = raw[:-PROOF_BYTES], raw[-PROOF_BYTES:]
        now = self._now()
        if not matches(tag, mac(self._own, "session", body)):
            return None
        issued: float = _ISSUED.unpack(body[2 * NONCE_BYTES :])[0]
        exchange = Exchange(_session_key(self._key, raw, self._host), int(count), method, target)
        if not matches(_proof_bytes(proof), exchange.request_proof()):
            return None
        return exchange if self._is_new(tag, int(count), issued, now) else None

    def _is_new(self, session: bytes, count: int, issued: float, now: float) -> bool:
        known = self._kept.get(session)
        if known is None:
            if issued <= self._given_up or now - issued > SESSION_SECONDS:
                return False
        elif count <= known.count or now - known.used > SESSION_SECONDS:
            return False
        self._kept[session] = _Kept(count, issued, now)
        self._kept.move_to_end(session)
        if len(self._kept) > MAX_SESSIONS:
            _, oldest = self._kept.popitem(last=False)
            self._given_up = max(self._given_up, oldest.issued)
        return True


def _session_key(key: bytes, session: bytes, host: str) -> bytes:
    return mac(key, "session", session, host.lower())


def _server_proof(key: bytes, session: bytes, host: str) -> bytes:
    return mac(key, "server", session, host.lower())


def _session_bytes(session: str) -> bytes | None:
    try:
        raw = base64.b64decode(session, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == 2 * NONCE_BYTES + _ISSUED.size + PROOF_BYTES else None


def _proof_bytes(proof: str) -> bytes:
    try:
        return bytes.fromhex(proof)
    except ValueError:
        return b""
