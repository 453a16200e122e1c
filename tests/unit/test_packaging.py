"""What is published and what is installed: the wheel has all it needs, and nothing is fetched that is not pinned."""

from __future__ import annotations

import email
import re
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
LOCKS = sorted([*ROOT.glob("requirements-*.lock"), *(ROOT / "bench" / "requirements").glob("*.lock")])
INSTALLED = f"penstock_streams-{penstock.__version__}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    builders = pytest.importorskip("hatchling.builders.wheel")
    (built,) = builders.WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with zipfile.ZipFile(built) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"{INSTALLED}/METADATA"))


def test_should_be_published_under_a_name_that_is_ours(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("penstock-streams", penstock.__version__)


def test_should_be_imported_and_run_as_penstock(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {
        "penstock",
        "penstock_examples",
        "pyspark_penstock",
        INSTALLED,
    }
    assert "penstock = penstock.cli:main" in wheel.read(f"{INSTALLED}/entry_points.txt").decode()


def test_should_bring_license_and_notice(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    for name in ("LICENSE", "NOTICE"):
        assert wheel.read(f"{INSTALLED}/licenses/{name}") == (ROOT / name).read_bytes()
    assert b"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in wheel.read(f"{INSTALLED}/licenses/LICENSE")


def test_should_bring_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    own = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*") if path.is_file()}
    expected = {name for name in own if "__pycache__" not in name}
    assert {name for name in wheel.namelist() if not name.startswith(INSTALLED)} == expected
    needed = (
        "py.typed",
        "client/web/assets/index.html",
        "client/web/assets/main.js",
        "spark/driver/log4j2.properties",
        "kafka/broker_jars.sha256",
        "spark/queries/LiveTable.java",
    )
    assert {f"penstock/{name}" for name in needed} <= expected


EXTRAS = {"delta", "avro", "jsonschema", "msgspec", "otel", "pandas", "protobuf", "pydantic"}


def test_should_have_only_the_extras_that_are_told_of(metadata: Message) -> None:
    """An optional name is one that somebody else may register."""
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS
    told = (ROOT / "SECURITY.md").read_text()
    assert not [name for name in EXTRAS if f"[{name}]" not in told]


def test_should_pin_what_extras_need(metadata: Message) -> None:
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements-dev.lock").read_text(), re.M))
    needed = {re.split(r"[^\w.-]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" in line}
    assert needed
    assert needed <= pinned


def test_should_bring_license_and_notice_with_the_source(tmp_path: Path) -> None:
    builders = pytest.importorskip("hatchling.builders.sdist")
    (built,) = builders.SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(built) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "NOTICE", "SECURITY.md", "README.md", "pyproject.toml", "src/penstock/py.typed"} <= names


def test_should_tell_everybody_to_install_the_name_that_is_ours() -> None:
    wrong = re.compile(r"pip install (?:[^\s`'\"]+ )*penstock(?![\w-])")
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *SOURCES.rglob("*.py"),
        *ROOT.glob("bench/**/*.py"),
        ROOT / "Makefile",
    ]
    assert not [f"{page.name}: {found}" for page in pages for found in wrong.findall(page.read_text())]


@pytest.mark.parametrize("lock", LOCKS, ids=[lock.name for lock in LOCKS])
def test_should_pin_with_hashes(lock: Path) -> None:
    requirements = [entry for entry in lock.read_text().replace("\\\n", " ").splitlines() if entry.strip()]
    assert requirements
    assert not [entry for entry in requirements if not re.match(r"[\w.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}", entry)]


def test_should_install_nothing_without_a_pin() -> None:
    """pip compares hashes, or installs this project alone with what is pinned to build it."""
    commands = [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(PIP)" in line or "pip install" in line]
    wrong = [line for line in commands if not re.search(r"--require-hashes|--no-deps --no-build-isolation -e \.|PIP +:=", line)]
    assert commands
    assert not wrong


def test_should_pin_what_builds_before_what_is_built() -> None:
    """pyspark comes as source: what builds it must be there, with the same pins, when it is installed."""
    pins = [
        set(re.findall(r"^([\w.-]+==\S+)", (ROOT / f"requirements-{which}.lock").read_text(), re.M)) for which in ("build", "dev")
    ]
    assert pins[0] <= pins[1]
    assert {"hatchling", "editables", "setuptools", "wheel"} <= {pin.partition("==")[0] for pin in pins[0]}
