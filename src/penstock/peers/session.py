"""How two instances show each other that they know the token, before anything else is said. No clocks are compared.

    asks                                       has
     │  GET /api/peer?nonce=<its nonce>         │
     │ ────────────────────────────────────────►│   knows nothing of the other yet, keeps nothing
     │  session (both nonces), proof            │
     │ ◄──────────────────────────────────────  │   the proof covers session and the address of `has`
     │  GET /api/stores/…                       │
     │  Authorization: Penstock session n proof │   the proof covers n, method and target
     │ ────────────────────────────────────────►│   n has to grow: what was heard once is refused
     │  status, body, proof                     │
     │ ◄──────────────────────────────────────  │   the proof covers n, method, target, status and body

The address is part of the session's key, so that nobody can pass on what an instance says to it to another one.
A session belongs to a connection of the side that asks, where requests follow one another.
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
"""Says that the body is a row of parts, each with its proof."""

NONCE_BYTES = 32
SESSION_SECONDS = 3_600.0
"""How long a session is good for without a request."""
MAX_SESSIONS = 4_096
MAX_PART = 256 * 1024 * 1024

_ISSUED = struct.Struct(">d")
_PART = struct.Struct(">?I")
PART_HEAD_BYTES = _PART.size + PROOF_BYTES
_MAX_COUNT = 1 << 62


class UnprovenError(OSError):
    """The other side did not show that it knows the token."""


@dataclass(frozen=True)
class Exchange:
    """One request in a session, seen alike from both sides."""

    key: bytes
    count: int
    method: str
    target: bytes

    def request_proof(self) -> bytes:
        """What the side that asks sends."""
        return mac(self.key, "request", self.count, self.method, self.target)

    def answer_proof(self, status: int, body: bytes) -> bytes:
        """What comes with a whole answer."""
        return mac(self.key, "answer", self.count, self.method, self.target, status, body)

    def part_head(self, status: int, number: int, last: bool, part: bytes) -> bytes:
        """What goes before a part of an answer."""
        return _PART.pack(last, len(part)) + self._part_proof(status, number, last, part)

    def check_part(self, status: int, number: int, last: bool, part: bytes, proof: bytes) -> None:
        """Refuse a part that the other side has not made, or that is not in its place."""
        if not matches(proof, self._part_proof(status, number, last, part)):
            raise UnprovenError(f"part {number} of its answer has no valid proof")

    def _part_proof(self, status: int, number: int, last: bool, part: bytes) -> bytes:
        return mac(self.key, "part", self.count, self.method, self.target, status, number, int(last), part)


def read_part_head(head: bytes) -> tuple[bool, int, bytes]:
    """Whether a part is the last, how long it is, and its proof."""
    last, size = _PART.unpack_from(head)
    if size > MAX_PART:
        raise UnprovenError(f"a part of its answer claims {size} bytes")
    return last, size, head[_PART.size :]


class AskingSession:
    """The side that asks: one for each connection."""

    def __init__(self, key: bytes, host: str) -> None:
        self._key, self._host = key, host
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._session = ""
        self._session_key = b""
        self._count = 0

    @property
    def opening(self) -> str:
        """What is asked first; it tells nothing."""
        return f"{PEER_PATH}?nonce={self._nonce.hex()}"

    def open(self, session: str, proof: str) -> None:
        """Take the answer; UnprovenError where the other side does not know the token."""
        raw = _session_bytes(session)
        if raw is None or raw[:NONCE_BYTES] != self._nonce:
            raise UnprovenError("it did not answer to what was asked")
        if not matches(_proof_bytes(proof), _server_proof(self._key, raw, self._host)):
            raise UnprovenError("it did not prove that it knows the application's token")
        self._session, self._session_key = session, _session_key(self._key, raw, self._host)

    def request(self, method: str, target: bytes) -> tuple[Exchange, str]:
        """The next request, and the header that goes with it."""
        self._count += 1
        exchange = Exchange(self._session_key, self._count, method, target)
        return exchange, f"{SCHEME} {self._session} {self._count} {exchange.request_proof().hex()}"


@dataclass(frozen=True)
class _Kept:
    count: int
    issued: float
    used: float


class AnsweringSessions:
    """The side that has what is asked for: all sessions with it.

    The side that asks keeps its session. This side keeps the last number of each session, so that no request is answered twice,
    and only for sessions that have proved the token: a stranger cannot make it keep anything.

    At most `MAX_SESSIONS` are kept. A new session takes the place of the one that was used least recently. The latter is
    refused from then on: a session whose number is not kept has to be younger than all that were given up.
    """

    def __init__(self, key: bytes, host: str, now: Callable[[], float] = monotonic) -> None:
        self._key, self._host, self._now = key, host, now
        self._own = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._given_up = -math.inf
        """When the youngest of the sessions was issued that are not kept any more."""

    def answer_opening(self, nonce: str) -> tuple[str, str] | None:
        """A session and the proof for it; None for a nonce that is none."""
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
        """The exchange that a request begins; None where it is not a peer's, or was heard before."""
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
