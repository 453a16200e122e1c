"""The documentation says what is so: its code runs, its links lead somewhere, its generated parts are current."""

from __future__ import annotations

import importlib.util
import re
import runpy
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock
from penstock import StreamsConfig, UnknownConfigWarning
from penstock.client.web.openapi import openapi
from penstock.commands.common import read_settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = "run: python docs/generate.py"
MOVED = {"coming-from-kafka-streams.md"}
"""Pages that only say where their content is now."""


def generator() -> Any:
    return loaded("generate")


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links() -> list[Any]:
    found = [(page, target) for page in PAGES for target in LINK.findall(CODE.sub("", page.read_text()))]
    return [pytest.param(page, target, id=f"{page.name}->{target}") for page, target in found if "://" not in target]


def python_blocks() -> list[Any]:
    blocks = [(page, code) for page in PAGES for language, code in CODE.findall(page.read_text()) if language == "python"]
    return [pytest.param(page, code, id=f"{page.name}-{number}") for number, (page, code) in enumerate(blocks)]


def files_of(page: Path) -> dict[str, str]:
    """The files that a page has the reader make: blocks whose first line is a comment with the file's name."""
    blocks = [code for language, code in CODE.findall(page.read_text()) if language in ("python", "toml")]
    return {found[1]: code for code in blocks if (found := re.match(r"# (\w+\.(?:py|toml))\n", code))}


def toml_blocks() -> list[tuple[Path, str]]:
    return [(page, code) for page in PAGES for language, code in CODE.findall(page.read_text()) if language == "toml"]


@pytest.mark.parametrize(
    ("who", "what"),
    [
        ("Other users of the host", r"command lines: `spark\.\*` settings, .* visible in `ps`"),
        ("Members of the consumer group", r"\*\*Without a token all members are trusted\*\*"),
        ("Registrants", r"choose the schema of their records"),
        ("Producers", r"`consumer\.fetch\.max\.bytes = 1000`"),
    ],
)
def test_should_say_in_the_security_policy_who_is_trusted_with_what(who: str, what: str) -> None:
    (row,) = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith(f"| **{who}**")]
    assert re.search(what, row)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_should_have_no_marks_of_a_merge(page: Path) -> None:
    assert not re.search(r"^(<<<<<<<|=======|>>>>>>>)( |$)", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("page", "target"), links())
def test_should_link_to_something_that_is_there(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    assert file.exists(), f"{page.name} links to {target}, which is not there"
    if anchor:
        assert anchor in anchors(file), f"{file.name} has no heading #{anchor}"


@pytest.mark.parametrize(("page", "code"), python_blocks())
def test_should_show_code_that_runs(
    page: Path, code: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What needs a broker is compiled; everything else runs, tests too, and what a comment says is printed is printed."""
    compiled = compile(code, "documentation", "exec", dont_inherit=True)
    if "KafkaStreams(" in code or "SparkSession" in code:
        return
    module = types.ModuleType("documentation")  # where classes look for what their annotations name
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    exec(compiled, module.__dict__)
    for test in [value for name, value in vars(module).items() if name.startswith("test_")]:
        test()
    expected = re.findall(r"print\(.*\)  # (.+)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("text", [pytest.param(code, id=f"{page.name}-{n}") for n, (page, code) in enumerate(toml_blocks())])
def test_should_show_settings_that_are_known(text: str, tmp_path: Path) -> None:
    """What a page shows as TOML is read as `--config` reads it, and has no key that nobody knows."""
    file = tmp_path / "app.toml"
    file.write_text(re.sub(r"\$\{[^}]+\}", "a-secret-of-some-length", text))
    settings = read_settings(file, None)
    assert settings
    settings = {key: value for key, value in settings.items() if not key.startswith("config.providers")}
    required = {"application.id": "docs", "bootstrap.servers": "localhost:9"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnknownConfigWarning)
        StreamsConfig({**required, **settings})


def test_should_have_the_current_table_of_settings() -> None:
    page = ROOT / "docs" / "configuration.md"
    assert page.read_text() == generator().configuration(page.read_text()), RUN


@pytest.mark.parametrize("example", sorted(path.stem for path in (ROOT / "src" / "penstock_examples").glob("[a-z]*.py")))
def test_should_have_the_current_picture_of_each_example(example: str) -> None:
    assert (ROOT / "docs" / "pictures" / f"{example}.svg").read_text() == generator().picture(example), RUN


@pytest.mark.parametrize("example", sorted(path.stem for path in (ROOT / "src" / "penstock_examples").glob("[a-z]*.py")))
def test_should_show_each_example(example: str) -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert f"../src/penstock_examples/{example}.py" in page
    assert f"pictures/{example}.svg" in page


def test_should_start_an_example_on_kubernetes_that_fits_together() -> None:
    folder = ROOT / "deploy" / "kubernetes"
    submit = (folder / "submit.sh").read_text()
    assert subprocess.run(["bash", "-n", str(folder / "submit.sh")], check=False).returncode == 0
    for kind in ("driver", "executor"):
        assert f"spark.kubernetes.{kind}.podTemplateFile={kind}-pod.yaml" in submit
        pod = yaml.safe_load((folder / f"{kind}-pod.yaml").read_text())
        assert [container["name"] for container in pod["spec"]["containers"]] == [f"spark-kubernetes-{kind}"]
    volume, driver = (yaml.safe_load((folder / f"driver-{name}.yaml").read_text()) for name in ("volume", "pod"))
    assert driver["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == volume["metadata"]["name"]
    application = runpy.run_path(str(folder / "application.py"))
    assert "counts" in str(application["topology"]().describe())
    assert '"state.dir": "/var/lib/penstock"' in (folder / "application.py").read_text()
    assert driver["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/lib/penstock"
    assert "mount.path=/var/lib/penstock" in submit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One.\n\n>>> a\n1\n>>> b\n2\n\nTwo.", "One.\n\n```pycon\n>>> a\n1\n>>> b\n2\n```\n\nTwo."),
        (">>> a\n... b", "```pycon\n>>> a\n... b\n```"),
        ("- one\n\n  >>> a\n\n- two", "- one\n\n  ```pycon\n  >>> a\n  ```\n\n- two"),
        ("No example; a >>> b.", "No example; a >>> b."),
    ],
)
def test_should_show_examples_of_docstrings_as_code(text: str, shown: str) -> None:
    assert loaded("examples_in_docstrings").fenced(text) == shown


def test_should_have_the_pages_in_four_groups() -> None:
    (nav,) = re.findall(r"^nav:\n(?:  .*\n)+", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = yaml.safe_load(nav)["nav"]
    assert [next(iter(group)) for group in pages] == ["Overview", "Tutorial", "How-to", "Reference", "Explanation"]
    named = re.findall(r": ([\w-]+\.md)$", nav, re.MULTILINE)
    assert sorted(named) == sorted({"index.md", *(page.name for page in (ROOT / "docs").glob("*.md"))} - MOVED)


@pytest.mark.parametrize("page", sorted(MOVED))
def test_should_lead_from_the_address_of_a_page_that_moved_to_where_it_is(page: str) -> None:
    assert LINK.findall((ROOT / "docs" / page).read_text())


@pytest.mark.parametrize("anchor", ["the-query-server", "state-as-tables", "stores-of-your-own", "where-is-a-key"])
def test_should_keep_the_addresses_of_the_parts_of_the_page_on_queries(anchor: str) -> None:
    assert anchor in anchors(ROOT / "docs" / "queries.md")


def test_should_list_every_path_of_the_query_server() -> None:
    page = (ROOT / "docs" / "query-server.md").read_text()
    assert not [path for path in openapi()["paths"] if f"{path}`" not in page and f"{path}?" not in page]


@pytest.mark.integration  # runs the tools of the documentation for a quarter of a minute
def test_should_build_the_site_with_every_public_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    reference = "".join(page.read_text() for page in (tmp_path / "reference").glob("*.html"))
    assert not [name for name in penstock.__all__ if f".{name}" not in reference and f">{name}" not in reference]
    assert "<blockquote>" not in reference, "an example of a docstring is shown as a quotation, not as code"
    assert 'class="gp">&gt;&gt;&gt; ' in reference


def test_should_draw_the_same_texts_for_a_reader_with_the_same_seed() -> None:
    reading = loaded("reading_test")
    file = ROOT / "src" / "penstock" / "hashing.py"
    texts = [text for page in reading.pages() for text in reading.sentences(page)]
    assert len(texts) > 2 * reading.DRAWN
    assert reading.drawn(texts, 1) == reading.drawn(texts, 1)
    assert reading.drawn(texts, 1) != reading.drawn(texts, 2)
    assert all(len(text.text.split()) > 12 for text in reading.docstrings(file))


def test_should_take_sentences_and_long_cells_for_a_reader_and_no_code(tmp_path: Path) -> None:
    reading = loaded("reading_test")
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading that is not read\n\nThe first sentence has five words. It ends there,\nand this one follows.\n\n"
        "- An item with a [link](to.md) is read.\n\n```\nthis code is left out of it\n```\n\n"
        "| a cell that is long enough to be read | short |\n"
    )
    reading.ROOT = tmp_path
    assert [text.text for text in reading.sentences(page)] == [
        "The first sentence has five words.",
        "It ends there, and this one follows.",
        "An item with a link is read.",
        "a cell that is long enough to be read",
    ]
