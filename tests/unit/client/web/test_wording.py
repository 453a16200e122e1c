"""The words of the console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock.client.web

ASSETS = Path(penstock.client.web.__file__).parent / "assets"
TEXT = "\n".join(file.read_text() for file in [*ASSETS.glob("*.js"), *ASSETS.glob("*.html")])


@pytest.mark.parametrize(
    "unclear", ["The last", "There for", "Ask", "No line fits", "No setting fits", "Nearer", "Further away", "Lies at", 'told"']
)
def test_should_use_plain_words_on_the_console(unclear: str) -> None:
    assert not re.search(rf"[\"`>]{re.escape(unclear)}[\"`<]", TEXT)


def test_should_not_speak_of_ways_of_repartitions() -> None:
    assert not re.search(r"\bways\b", TEXT)
