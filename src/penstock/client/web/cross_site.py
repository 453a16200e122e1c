"""Pages of other sites: a browser would let them ask this server in the name of whoever looks at them.

Browsers say where a request comes from (`Sec-Fetch-Site`, `Origin`), and a page cannot change that. What comes from elsewhere is
refused, with a token and without; only a link to the page may be followed. Answers say that no other site may embed them, and
nothing here ever allows more (CORS).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

# An answer depends on these, where somebody keeps it.
_VARY = b"Authorization, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"

HEADERS = [(b"cross-origin-resource-policy", b"same-origin"), (b"vary", _VARY)]
"""What every answer carries."""


def refusal_of(path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
    """Status and reason where a browser says that another site asks; None where that is not so.

    >>> refusal_of("/api/stores", {b"host": b"localhost:8080", b"sec-fetch-site": b"same-origin"})
    >>> refusal_of("/api/stores", {b"host": b"localhost:8080", b"origin": b"https://evil.example"})
    (403, 'a page of another site may not ask: https://evil.example')
    """
    site = headers.get(b"sec-fetch-site", b"none").strip().lower()
    origin = headers.get(b"origin")
    if origin is not None and not _is_own(origin, headers.get(b"host", b"")):
        return 403, f"a page of another site may not ask: {origin[:200].decode('latin-1')}"
    if site in (b"none", b"same-origin") or (path == "/" and _is_followed_link(headers)):
        return None
    return 403, f"a page of another site may not ask (Sec-Fetch-Site: {site[:50].decode('latin-1')})"


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether a page came from the server that is asked; behind a proxy the scheme may be another."""
    try:
        found = urlsplit(origin.decode("ascii").lower())
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc != "" and found.netloc.encode() == host.strip().lower()


def _is_followed_link(headers: Mapping[bytes, bytes]) -> bool:
    """Somebody goes to the page itself, in a window of its own; not a frame, not a script."""
    return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
