"""The page: one document with its style and its scripts, which the server has with it; nothing comes from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from penstock.client.web.headers import CLOSED

_FOLDER = Path(__file__).with_name("assets")
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file of the page, as it is sent."""

    content: bytes
    media_type: str


PAGE: Final = (_FOLDER / "index.html").read_text(encoding="utf-8")

ASSETS: Final = {
    f"/assets/{path.name}": Asset(path.read_bytes(), _TYPES[path.suffix])
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}
"""By their paths. There are no others: nothing of a path is ever looked up in a file system."""

POLICY: Final = (
    f"{CLOSED}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""What a browser lets the page do: run this server's scripts and ask this server. Text never becomes a script, nor HTML."""
