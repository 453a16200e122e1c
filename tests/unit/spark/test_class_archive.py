"""Whether a JVM is told of an archive of its classes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.errors import StreamsError
from penstock.spark.driver import class_archive as making
from penstock.spark.driver.session import _archive_options, class_archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that this user has made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = class_archive()
    file.parent.mkdir()
    file.write_bytes(b"classes")
    file.chmod(0o600)
    return file


def test_should_use_an_archive_of_the_users(archive: Path) -> None:
    assert f'"-XX:SharedArchiveFile={archive}" -Xshare:auto' in _archive_options("-Xss4m")


def test_should_have_one_archive_for_each_java(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/another/java")
    assert class_archive() != archive
    assert class_archive().parent == archive.parent
    assert _archive_options("") == ""


def test_should_not_use_an_archive_that_others_can_write(archive: Path) -> None:
    archive.chmod(0o620)
    assert _archive_options("") == ""


@pytest.mark.parametrize("wanted", ["-Xshare:off", "-XX:SharedArchiveFile=/own.jsa", "-XX:ArchiveClassesAtExit=/own.jsa"])
def test_should_leave_it_to_the_user_who_has_decided(archive: Path, wanted: str) -> None:
    assert _archive_options(wanted) == ""


class Writing:
    """A process that has written a part of the archive, and ends when it is killed, or has ended by itself."""

    ends = False

    def __init__(self, command: list[str], output: Path, environment: object) -> None:
        Path(command[3]).write_bytes(b"half of them")
        output.write_text("")
        self.is_running = not self.ends

    def kill(self) -> None:
        self.is_running = False


def test_should_not_keep_half_of_an_archive_that_is_given_up(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "GuardedProcess", Writing)
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(StreamsError, match=r"Making the archive of Spark's classes .* failed"):
        making.make_archive(given_up=given_up)
    assert archive.read_bytes() == b"classes"
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]


def test_should_keep_an_archive_whose_maker_has_ended(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "GuardedProcess", Writing)
    monkeypatch.setattr(Writing, "ends", True)
    assert making.make_archive() == archive
    assert archive.read_bytes() == b"half of them"
