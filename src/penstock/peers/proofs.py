"""Keys derived from the application's token, one for each purpose, and HMACs."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROOF_BYTES = 32


def mac(key: bytes, *parts: bytes | str | int) -> bytes:
    """Return HMAC-SHA256 over parts with their lengths, so that different lists give different input.

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
    """Compare two proofs in constant time."""
    return hmac.compare_digest(given, expected)


@dataclass(frozen=True)
class PeerKeys:
    """The keys of an application's instances, one for each purpose.

    A proof for one purpose, or for another application with the same token, is invalid elsewhere.
    """

    member: bytes = field(repr=False)
    """For a member's data to the group's leader."""
    leader: bytes = field(repr=False)
    """For the leader's assignments."""
    peer: bytes = field(repr=False)
    """For requests and answers between instances."""

    @classmethod
    def derive(cls, token: str, application_id: str) -> PeerKeys:
        """Derive the keys. The token itself signs nothing."""
        secret = token.encode()
        return cls(*(mac(secret, "penstock keys 1", purpose, application_id) for purpose in ("member", "leader", "peer")))

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> PeerKeys | None:
        """Return the keys of an application, None without a token."""
        token = config["application.server.token"]
        return cls.derive(token, config["application.id"]) if token else None
