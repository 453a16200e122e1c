"""Protection against requests from pages of other sites, which a browser sends in its user's name.

Browsers report the origin of a request (`Sec-Fetch-Site`, `Origin`), which a page cannot change. Requests from other sites
are refused, with or without a token, except a followed link to the console. Answers forbid embedding in other sites, and CORS
is never enabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

# Caches must distinguish answers by these headers.
_VARY = b"Authorization, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, Sec-Fetch-Dest"

HEADERS = [(b"cross-origin-resource-policy", b"same-origin"), (b"vary", _VARY)]
"""Headers of every answer."""


def refusal_of(path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
    """Return status and reason if a browser reports a request from another site, else None.

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
    """Return True if a page came from this server. Behind a proxy the scheme may differ."""
    try:
        found = urlsplit(origin.decode("ascii").lower())
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc != "" and found.netloc.encode() == host.strip().lower()


def _is_followed_link(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if the user followed a link to the console in a window, not in a frame or script."""
    return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
