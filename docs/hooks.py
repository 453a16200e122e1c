"""What `make docs` adds to the pages: the overview, results, the reference of every public name, and sources pages link to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = ROOT / "src" / "penstock" / "__init__.py"
RESULTS = ROOT / "bench" / "results"
OUTSIDE = re.compile(r"\]\(\.\./((?:src|tests|deploy)/[^)#]+|SECURITY\.md|CHANGELOG\.md)\)")


def groups() -> dict[str, list[str]]:
    """The public names by theme, as `penstock.__all__` lists them."""
    listed = PUBLIC.read_text().split("__all__ = [")[1].split("]")[0]
    found: dict[str, list[str]] = {}
    theme = "Other"
    for line in listed.splitlines():
        text = line.strip()
        if text.startswith("#"):
            theme = text[1:].strip()
        elif text:
            found.setdefault(theme, []).append(text.strip('",'))
    return found


def slug(theme: str) -> str:
    """The name of a theme's page."""
    return re.sub(r"\W+", "-", theme.lower()).strip("-")


def reference_page(theme: str, names: list[str]) -> str:
    """A page that shows the docstrings of these names."""
    import penstock

    parts = [f"# {theme}\n\nEverything here is imported from `penstock` itself.\n"]
    for name in names:
        found = getattr(penstock, name)
        module = getattr(found, "__module__", "")
        if isinstance(found, type) and module.startswith("penstock."):
            parts.append(f"::: {module}.{found.__qualname__}\n")
        else:
            parts.append(f"## {name}\n\n`{found!r}`\n")
    return "\n".join(parts)


def on_config(config: Any) -> Any:
    """Put the pages of the API where the navigation has their folder."""
    pages = [{theme: f"reference/{slug(theme)}.md"} for theme in groups()]
    for entry in config.nav:
        if "Reference" in entry:
            entry["Reference"] = [{"API": pages} if "API" in page else page for page in entry["Reference"]]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is not in docs/: the README as the first page, the reference, and linked sources as they are."""
    overview = (ROOT / "README.md").read_text()
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE"):
        files.append(File.generated(config, f"source/{name}.txt", content=(ROOT / name).read_text()))
        overview = overview.replace(f"({name})", f"(source/{name}.txt)")
    files.append(File.generated(config, "index.md", content=overview.replace("](docs/", "](").replace("](bench/", "](")))
    for file in sorted([*RESULTS.glob("*.md"), *RESULTS.glob("*.svg")]):
        files.append(File.generated(config, f"results/{file.name}", content=file.read_text()))
    for theme, names in groups().items():
        files.append(File.generated(config, f"reference/{slug(theme)}.md", content=reference_page(theme, names)))
    linked = {path for page in (ROOT / "docs").glob("*.md") for path in OUTSIDE.findall(page.read_text())}
    for path in sorted(linked - {"SECURITY.md", "CHANGELOG.md"}):  # they are there already
        files.append(File.generated(config, f"source/{path}.txt", content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to sources beside docs/ lead to their copies in the site."""
    return (
        OUTSIDE.sub(r"](source/\1.txt)", markdown).replace("](../bench/results/", "](results/").replace("](../../docs/", "](../")
    )
