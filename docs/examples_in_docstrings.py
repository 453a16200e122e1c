"""Prepares docstrings for the API reference: examples (`>>> …`) become code blocks, which Markdown would take for quotes."""

from __future__ import annotations

from typing import Any

from griffe import Extension

HELPERS = ("JavaNames", "Generic", "ABC")
"""Bases that say nothing to a reader."""


class ExampleBlocks(Extension):
    """Puts fences around the examples of docstrings, and leaves helper classes out of the bases of a class."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object that griffe has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
        if obj.is_class:
            obj.bases = [base for base in obj.bases if str(base).partition("[")[0].rpartition(".")[2] not in HELPERS]


def fenced(text: str) -> str:
    """The text with a fence around each example: from a line that begins with `>>>` to the next blank line.

    >>> print(fenced("One.\\n\\n>>> 1 + 1\\n2\\n\\nTwo."))
    One.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    Two.
    """
    lines: list[str] = []
    margin: str | None = None
    for line in text.splitlines():
        if margin is None and line.lstrip().startswith(">>>"):
            margin = line[: len(line) - len(line.lstrip())]
            lines.append(f"{margin}```pycon")
        elif margin is not None and not line.strip():
            lines.append(f"{margin}```")
            margin = None
        lines.append(line)
    if margin is not None:
        lines.append(f"{margin}```")
    return "\n".join(lines)
