import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PACKAGES = [SOURCES / name for name in ("penstock", "pyspark_penstock", "penstock_examples")]

# Not placeholders such as `<name>.py`, and not the end of an address or of an absolute path.
FILE_NAME = re.compile(r"(?<![\w/.<>*{}-])(?:[\w-]+/)*[\w-]+\.(?:py|java|md|toml|sha256|css|js|html)\b")


def references(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text, _, _ = (ast.get_docstring(node) or "").partition(">>>")
            yield from FILE_NAME.findall(text)


def exists(name: str, file: Path) -> bool:
    above = [folder for folder in file.parents if folder.is_relative_to(ROOT)]
    return any((folder / name).exists() for folder in (*above, SOURCES / "penstock", ROOT / "docs"))


def test_should_find_every_file_that_a_docstring_names() -> None:
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for file in sorted(package.glob("**/*.py"))
        for name in references(file)
        if not exists(name, file)
    ]
    assert missing == []


def test_should_find_the_file_names_in_a_docstring(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""See `spark/plan.py` and docs/index.md, not operators/<name>.py.\n\n>>> open("x.toml")\n"""\n')

    assert list(references(file)) == ["spark/plan.py", "docs/index.md"]
