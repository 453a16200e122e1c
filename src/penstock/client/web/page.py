"""The page: one document, no outside assets."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Final

from penstock.client.web.headers import CLOSED

PAGE: Final = Path(__file__).with_name("page.html").read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


_SCRIPTS = " ".join(map(_hash, re.findall(r"<script>(.*?)</script>", PAGE, re.DOTALL)))

POLICY: Final = f"{CLOSED}; style-src 'unsafe-inline'; script-src {_SCRIPTS}; connect-src 'self'; img-src data:"
"""What a browser lets the page do: run its own script, and no other, and ask this server."""
