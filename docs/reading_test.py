"""Draw 100 sentences of the documentation and 100 docstrings, for a reader who has never seen the project.

    python docs/reading_test.py                  # print both, numbered
    python docs/reading_test.py --seed 7         # another draw
    python docs/reading_test.py --only docs      # sentences alone, or --only docstrings

The reader marks each text that needs a second reading. At least 95 of 100 should be clear. The draw is the same for the same
seed and the same texts.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DRAWN, SEED = 100, 2026
SHORTEST_SENTENCE, SHORTEST_CELL, LONGER_THAN = 5, 8, 12

_CODE = re.compile(r"^ *```.*?^ *```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?:\*\*)?\s+(?=[A-Z`*\"]|penstock )")


class Text(NamedTuple):
    """A sentence or a docstring, and its place."""

    place: str
    text: str


def pages() -> list[Path]:
    """Return the pages that people read; the changelog is a list."""
    named = [ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")]
    return sorted([*named, *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("**/*.md")])


def sentences(page: Path) -> Iterator[Text]:
    """Yield the sentences of paragraphs, list items and long table cells."""
    place = str(page.relative_to(ROOT))
    for block in _blocks(_CODE.sub("\n\n", page.read_text())):
        shortest = SHORTEST_CELL if block.is_cell else SHORTEST_SENTENCE
        for sentence in _END_OF_SENTENCE.split(_LINK.sub(r"\1", block.text)):
            if len(sentence.split()) >= shortest:
                yield Text(place, sentence.strip())


class _Block(NamedTuple):
    text: str
    is_cell: bool = False


def _blocks(markdown: str) -> Iterator[_Block]:
    lines: list[str] = []
    for line in [*markdown.splitlines(), ""]:
        is_cell, is_new = line.startswith("|"), _ITEM.match(line) is not None
        if lines and (is_cell or is_new or not line.strip() or line.startswith("#")):
            yield _Block(" ".join(lines))
            lines = []
        if is_cell:
            yield from (_Block(cell.strip(), is_cell=True) for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        elif line.strip() and not line.startswith("#"):
            lines.append(_ITEM.sub("", line).strip())


def docstrings(file: Path) -> Iterator[Text]:
    """Yield the docstrings of a module that are longer than 12 words, without their examples."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = (ast.get_docstring(node) or "").split(">>>")[0].strip()
            if len(found.split()) > LONGER_THAN:
                name = getattr(node, "name", "")
                yield Text(f"{file.relative_to(ROOT)}{':' * bool(name)}{name}", found)


def drawn(texts: list[Text], seed: int) -> list[Text]:
    """Return the texts to be read, in the order of their places."""
    return sorted(random.Random(seed).sample(texts, min(DRAWN, len(texts))))  # noqa: S311 - a draw, no secret


def main() -> None:
    """Print the texts of a draw."""
    parser = argparse.ArgumentParser(description="Draw sentences and docstrings for the reading test.")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", choices=("docs", "docstrings"))
    arguments = parser.parse_args()
    kinds = {
        "docs": [text for page in pages() for text in sentences(page)],
        "docstrings": [text for file in sorted((ROOT / "src").glob("**/*.py")) for text in docstrings(file)],
    }
    for kind, texts in kinds.items():
        if arguments.only in (None, kind):
            print(f"{kind}: {DRAWN} of {len(texts)}\n")
            for number, text in enumerate(drawn(texts, arguments.seed), 1):
                print(f"{number:3}. {text.place}\n     " + text.text.replace("\n", "\n     ") + "\n")


if __name__ == "__main__":
    main()
