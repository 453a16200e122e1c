"""The parts of the documentation that are made from the code: the table of settings and the pictures of the examples.

`python docs/generate.py` writes them anew; a test says when that is needed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from penstock.commands.app_reference import load_topology  # noqa: E402 - the repository is found first
from penstock.config.keys import KEYS, REQUIRED, ConfigKey, Importance  # noqa: E402
from penstock.drawing.picture import draw_topology  # noqa: E402

BEGIN, END = "<!-- generated: python docs/generate.py -->", "<!-- end of what is generated -->"
EXAMPLES = sorted(path.stem for path in (DOCS.parent / "src" / "penstock_examples").glob("[a-z]*.py"))


def configuration(text: str) -> str:
    """The page of settings with its tables made anew."""
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    tables = [f"### {importance.value.capitalize()} importance\n\n{_table(importance)}" for importance in Importance]
    return f"{before}{BEGIN}\n\n" + "\n\n".join(tables) + f"\n\n{END}{after}"


def _table(importance: Importance) -> str:
    rows = [_row(key) for key in KEYS.values() if key.importance is importance]
    return "\n".join(["| key | type | default | |", "|---|---|---|---|", *rows])


def _row(key: ConfigKey) -> str:
    allowed = f" ({key.allowed.text})" if key.allowed is not None else ""
    doc = key.doc if key.without_effect is None else f"{key.doc} *Does not apply here:* {key.without_effect}."
    return f"| `{key.name}` | {key.type.name.lower()}{allowed} | {_default(key)} | {doc} |".replace("|  |", "| |")


def _default(key: ConfigKey) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default in (None, "", ()):
        return ""
    default = str(key.default).replace(tempfile.gettempdir(), "<temporary folder>")
    return f"`{default.replace(f'penstock-{os.getuid()}', 'penstock-<user id>')}`"


def picture(example: str) -> str:
    """The picture of an example, as `penstock describe --svg` draws it."""
    reference = f"penstock_examples.{example}:topology"
    topology = load_topology(reference)
    return draw_topology(topology.describe(), title=reference)


def main() -> None:
    """Write everything."""
    page = DOCS / "configuration.md"
    page.write_text(configuration(page.read_text()))
    for example in EXAMPLES:
        (DOCS / "pictures" / f"{example}.svg").write_text(picture(example))


if __name__ == "__main__":
    main()
