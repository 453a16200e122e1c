"""Keys that are derived from the application's token, one for each purpose, and HMACs over what is said."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROOF_BYTES = 32


def mac(key: bytes, *parts: bytes | str | int) -> bytes:
    """HMAC-SHA256 over parts, each with its length before it: no two lists of parts give the same bytes.

    >>> mac(b"key", "a", "bc") == mac(b"key", "ab", "c")
    False
    """
    found = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        found.update(len(raw).to_bytes(8, "big"))
        found.update(raw)
    return found.digest()


def matches(given: bytes, expected: bytes) -> bool:
    """Whether two proofs are the same, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given, expected)


@dataclass(frozen=True)
class PeerKeys:
    """What the instances of one application prove to each other with.

    A proof that was made for one purpose, or for another application with the same token, is worth nothing elsewhere.
    """

    member: bytes = field(repr=False)
    """For what a member tells the group's leader."""
    leader: bytes = field(repr=False)
    """For what the leader decides."""
    peer: bytes = field(repr=False)
    """For requests among instances and their answers."""

    @classmethod
    def derive(cls, token: str, application_id: str) -> PeerKeys:
        """From the token, which itself signs nothing."""
        secret = token.encode()
        return cls(*(mac(secret, "penstock keys 1", purpose, application_id) for purpose in ("member", "leader", "peer")))

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> PeerKeys | None:
        """Those of an application; None where it has no token."""
        token = config["application.server.token"]
        return cls.derive(token, config["application.id"]) if token else None
