"""Only jars that are known by their hash get on the class path of the development broker."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import BrokerError
from penstock.kafka import broker_jars
from penstock.kafka.jar_hashes import pinned_hashes, sha256_of

Resolved = Callable[..., list[str]]


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolved:
    """Let the resolver find jars with these contents; those called `expected` are pinned."""

    def make(**contents: bytes) -> list[str]:
        folder = tmp_path / "resolved"
        folder.mkdir(exist_ok=True)
        jars = []
        for name, content in contents.items():
            (folder / f"{name}.jar").write_bytes(content)
            jars.append(str(folder / f"{name}.jar"))
        pins = {Path(jar).name: sha256_of(jar) for jar in jars if "expected" in jar}
        monkeypatch.setattr(broker_jars, "_resolve", lambda _: jars)
        monkeypatch.setattr(broker_jars, "pinned_hashes", lambda: pins)
        monkeypatch.setattr(broker_jars, "_spark_jars", lambda: ["spark.jar"])
        return jars

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make


def test_should_put_pinned_jars_before_those_of_spark(resolved: Resolved) -> None:
    jars = resolved(expected_1=b"one", expected_2=b"two")
    assert broker_jars.broker_class_path() == ":".join([*jars, "spark.jar"])
    assert broker_jars.broker_class_path() == ":".join([*jars, "spark.jar"])


def test_should_leave_logging_to_spark(resolved: Resolved) -> None:
    """An API of slf4j before Spark's does not find Spark's logging, and the broker says nothing."""
    jars = resolved(expected_1=b"one", expected_2=b"two")
    Path(jars[0]).rename(api := Path(jars[0]).with_name("org.slf4j_slf4j-api-1.7.36.jar"))
    jars[0] = str(api)
    broker_jars.pinned_hashes()[api.name] = sha256_of(str(api))
    assert broker_jars.broker_class_path() == f"{jars[1]}:spark.jar"


def test_should_refuse_a_jar_that_was_tampered_with_on_its_way(resolved: Resolved, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = resolved(expected_1=b"one")
    wanted = sha256_of(jars[0])
    Path(jars[0]).write_bytes(b"another")
    with pytest.raises(BrokerError) as caught:
        broker_jars.broker_class_path()
    assert jars[0] in str(caught.value)
    assert f"has SHA-256 {sha256_of(jars[0])}, expected {wanted}" in str(caught.value)
    assert "Delete" in str(caught.value)


def test_should_refuse_a_jar_that_was_changed_after_an_earlier_start(resolved: Resolved) -> None:
    jars = resolved(expected_1=b"one", expected_2=b"two")
    broker_jars.broker_class_path()
    changed = bytearray(Path(jars[1]).read_bytes())
    changed[0] ^= 1
    Path(jars[1]).write_bytes(changed)
    with pytest.raises(BrokerError, match=re.escape(jars[1])):
        broker_jars.broker_class_path()


def test_should_refuse_a_jar_nobody_has_pinned(resolved: Resolved) -> None:
    resolved(expected_1=b"one", stowaway=b"two")
    with pytest.raises(BrokerError, match=r"stowaway\.jar is not one of the jars"):
        broker_jars.broker_class_path()


def test_should_refuse_a_list_of_jars_that_was_changed(resolved: Resolved, tmp_path: Path) -> None:
    resolved(expected_1=b"one")
    broker_jars.broker_class_path()
    (tmp_path / "evil.jar").write_bytes(b"two")
    listed = next((tmp_path / "cache").glob("**/jars.txt"))
    listed.write_text(listed.read_text() + f"\n{tmp_path / 'evil.jar'}")
    with pytest.raises(BrokerError, match=r"evil\.jar"):
        broker_jars.broker_class_path()


def test_should_have_pinned_the_version_of_kafka_that_is_run() -> None:
    pins = pinned_hashes()
    assert f"org.apache.kafka_kafka_2.13-{broker_jars.KAFKA_VERSION}.jar" in pins
    own = [name for name in pins if name.startswith("org.apache.kafka_")]
    assert all(name.endswith(f"-{broker_jars.KAFKA_VERSION}.jar") for name in own)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in pins.values())


def test_should_not_run_a_kafka_that_completes_transactions_without_their_markers() -> None:
    assert broker_jars.KAFKA_VERSION not in ("4.3.0", "4.3.1")  # KAFKA-20734; a later one only when it is mended there


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no safe path")
def test_should_not_import_what_lies_in_the_folder_where_it_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "py4j.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(BrokerError, match="could not be fetched"):
        broker_jars._resolve(tmp_path)
    assert not (tmp_path / "imported").exists()
