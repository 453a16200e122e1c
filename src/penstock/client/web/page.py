"""The console's files: one document with style and scripts. Nothing is loaded from other hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from penstock.client.web.headers import CLOSED

_FOLDER = Path(__file__).with_name("assets")
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """A file of the console."""

    content: bytes
    media_type: str


PAGE: Final = (_FOLDER / "index.html").read_text(encoding="utf-8")

ASSETS: Final = {
    f"/assets/{path.name}": Asset(path.read_bytes(), _TYPES[path.suffix])
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}
"""The files by path. No path is looked up in the file system."""

POLICY: Final = (
    f"{CLOSED}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The browser's restrictions: only scripts from, and requests to, this server. Text can become neither script nor HTML."""
