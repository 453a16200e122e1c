from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.spark.driver import session
from tests.harness.waiting import LIMIT


def test_should_say_which_java_does_not_start(tmp_path: Path) -> None:
    begin = "from penstock.spark.driver.session import make_context; make_context('words', {})"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    ended = subprocess.run(
        [sys.executable, "-c", begin],
        env={**environment, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode == 1
    assert f"StreamsError: Spark's JVM did not start ({tmp_path}/bin/java)" in ended.stderr
    assert "JAVA_HOME" in ended.stderr.splitlines()[-1]


LOCAL = {"spark.master": "local[2]"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    return tmp_path


def test_should_keep_shuffles_where_only_this_user_can_read(temporary: Path) -> None:
    (folder,) = session._local_folders(LOCAL, True)
    assert folder.path.parent == temporary
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.close()
    assert list(temporary.iterdir()) == []


def test_should_keep_shuffles_inside_the_folders_that_are_configured(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (temporary / name for name in ("first", "second", "third"))
    found = session._local_folders({**LOCAL, "spark.local.dir": f"{first}, {second}"}, True)
    assert [folder.path.parent for folder in found] == [first, second]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(third))
    (folder,) = session._local_folders({**LOCAL, "spark.local.dir": str(first)}, True)
    assert folder.path.parent == third
    assert {stat.S_IMODE(one.path.stat().st_mode) for one in (*found, folder)} == {0o700}


def test_should_leave_local_folders_alone_where_it_cannot_or_need_not_decide(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not session._local_folders({"spark.master": "spark://host:7077"}, True)
    assert not caplog.records
    (temporary / "file").touch()
    assert not session._local_folders({**LOCAL, "spark.local.dir": str(temporary / "file" / "x")}, True)
    assert "readable by other users" in caplog.text
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(temporary))  # a JVM that runs has read it already
    monkeypatch.setattr(session, "running_gateway", object)
    assert not session._local_folders(LOCAL, False)


def test_should_keep_the_folders_that_a_jvm_began_with_until_it_ends(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm, began = object(), session._local_folders(LOCAL, True)
    monkeypatch.setattr(session, "running_gateway", lambda: jvm)
    monkeypatch.setattr(session, "_scratch", (jvm, began))
    monkeypatch.setattr(session, "forget_gateway", lambda _: None)
    monkeypatch.setattr(session, "end_gateway", lambda *_: None)
    assert session._local_folders(LOCAL, False) is began
    session._end_jvm(object())
    assert began[0].path.is_dir()
    session._end_jvm(jvm)
    assert not began[0].path.exists()


def test_should_restore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/before")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    with session._environment({"SPARK_LOCAL_DIRS": "/meanwhile", "SPARK_LOCAL_IP": "127.0.0.1"}):
        assert (os.environ["SPARK_LOCAL_DIRS"], os.environ["SPARK_LOCAL_IP"]) == ("/meanwhile", "127.0.0.1")
    assert os.environ["SPARK_LOCAL_DIRS"] == "/before"
    assert "SPARK_LOCAL_IP" not in os.environ
