"""Rules of security that a line does not follow: each has its reason beside it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
EXCEPTION = re.compile(r"# noqa: (?=[^-\n]*\bS\d)[A-Z0-9, ]+(.*)")


@pytest.mark.parametrize("folder", ["src", "bench", "docs", "deploy", "tests"])
def test_should_have_a_reason_beside_each_exception(folder: str) -> None:
    # Environments of the bench lie in hidden folders.
    files = [
        file for file in (ROOT / folder).rglob("*.py") if not any(part.startswith(".") for part in file.relative_to(ROOT).parts)
    ]
    found = [(file, match) for file in files for match in EXCEPTION.finditer(file.read_text())]
    assert not [f"{file.name}: {match[0]}" for file, match in found if not re.match(r"- \S+ .*\w", match[1])]


def test_should_check_the_rules_of_security_everywhere() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert [code for code in lint["ignore"] if re.match(r"S\d", code)] == ["S101"]
    ignored = lint["per-file-ignores"].items()
    assert not [files for files, codes in ignored if files.startswith("src") and any(code.startswith("S") for code in codes)]
    for line in (ROOT / "pyproject.toml").read_text().splitlines():
        if re.match(r'\s+"S\d+"', line):
            assert re.search(r"# \w+", line), line
