"""One operator, one test file: who adds an operator finds this until there is one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock import operators

SOURCE, TESTS = Path(operators.__file__).parent, Path(__file__).parent

# The kinds of a join of two tables are compared with each other, case by case, in one file.
TOGETHER = {f"table_table_{kind}_join": "table_table_join" for kind in ("inner", "left", "right", "outer")}


def _operators() -> list[Path]:
    """The modules with a class that supplies processors: it can be called without arguments, for each task."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if any(map(_supplies, ast.parse(path.read_text()).body))]


def _supplies(node: ast.stmt) -> bool:
    if not isinstance(node, ast.ClassDef) or node.name == "KTableProcessorSupplier":  # a protocol
        return False
    return any(
        isinstance(method, ast.FunctionDef) and method.name == "__call__" and len(method.args.args) == 1 for method in node.body
    )


@pytest.mark.parametrize("path", _operators(), ids=lambda path: path.stem)
def test_should_have_a_test_file(path: Path) -> None:
    name = TOGETHER.get(path.stem, path.stem)
    assert (TESTS / path.relative_to(SOURCE)).with_name(f"test_{name}.py").is_file()
