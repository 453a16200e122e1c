"""The page: one document, no outside assets."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
