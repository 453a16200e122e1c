"""When an archive of Spark's classes is made beside an application; what makes it is played."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import StreamsError
from penstock.spark.driver import archive_maker
from penstock.spark.driver.archive_maker import ArchiveMaker, has_room, is_needed, may_be_made
from penstock.spark.driver.session import class_archive
from tests.harness.waiting import LIMIT

LOCAL = {"spark.master": "local[2]"}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it would be, on a machine of the user's own that has room."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(archive_maker, "_IN_CONTAINERS", ())
    monkeypatch.setattr(archive_maker, "has_room", lambda: True)
    return class_archive()


def run(monkeypatch: pytest.MonkeyPatch, make: Callable[..., Path]) -> None:
    monkeypatch.setattr(archive_maker, "make_archive", make)
    maker = ArchiveMaker(after_seconds=0.0)
    maker.start()
    maker._thread.join(LIMIT)
    assert not maker._thread.is_alive()


def test_should_make_one_where_there_is_none(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(aside: bool, given_up: threading.Event) -> Path:
        assert aside
        archive.write_bytes(b"classes")
        return archive

    assert may_be_made(LOCAL)
    run(monkeypatch, make)
    assert archive.exists()
    assert not may_be_made(LOCAL)


def test_should_not_try_again_where_it_has_failed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def make(**_: object) -> Path:
        tried.append(1)
        raise StreamsError("the disk is full")

    run(monkeypatch, make)
    assert not is_needed()
    assert not may_be_made(LOCAL)
    assert len(tried) == 1


def test_should_try_again_at_the_next_start_where_it_was_given_up(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    def make(aside: bool, given_up: threading.Event) -> Path:
        began.set()
        assert given_up.wait(LIMIT)
        raise StreamsError("it was ended")

    monkeypatch.setattr(archive_maker, "make_archive", make)
    maker = ArchiveMaker(after_seconds=0.0)
    maker.start()
    assert began.wait(LIMIT)
    maker.stop()
    assert not maker._thread.is_alive()
    assert is_needed()


def test_should_leave_it_to_the_process_that_makes_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.parent.mkdir()
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(monkeypatch, lambda **_: pytest.fail("made by two"))


@pytest.mark.parametrize("options", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa", "-XX:ArchiveClassesAtExit=mine.jsa"])
def test_should_not_meddle_with_what_the_user_says_of_shared_classes(archive: Path, options: str) -> None:
    assert not may_be_made({**LOCAL, "spark.driver.extraJavaOptions": f"-Xss4m {options}"})


def test_should_not_be_made_for_a_cluster(archive: Path) -> None:
    assert not may_be_made({"spark.master": "spark://host:7077"})


def test_should_not_be_made_in_a_container(archive: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(archive_maker, "_IN_CONTAINERS", (tmp_path,))
    assert not may_be_made(LOCAL)
    monkeypatch.setattr(archive_maker, "_IN_CONTAINERS", ())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert not may_be_made(LOCAL)


def test_should_wait_while_the_machine_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_maker, "_FREE_BYTES", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for load, room in ((1.9, True), (2.1, False)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert has_room() is room
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(archive_maker, "_FREE_BYTES", 1 << 60)
    assert has_room() is not Path("/proc/meminfo").exists()
