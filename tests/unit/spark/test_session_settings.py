from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from pyspark import SparkContext

from penstock.spark.driver.session_settings import is_local_master, listens_on_loopback, own_settings, settings_elsewhere

ADDRESSES = ("spark.driver.host", "spark.driver.bindAddress")


@pytest.fixture(autouse=True)
def no_spark_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not started Spark, with an empty folder of settings."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


@pytest.mark.parametrize("given", [{}, {"spark.master": "local"}, {"spark.master": "local[4]"}, {"spark.master": "local[*,3]"}])
def test_should_stay_on_loopback_and_authenticate_with_a_local_master(given: dict[str, str]) -> None:
    own = own_settings(given, {})
    assert [own[key] for key in ADDRESSES] == ["127.0.0.1", "127.0.0.1"]
    assert own["spark.authenticate"] == "true"
    assert listens_on_loopback(given, {})


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_should_leave_addresses_and_secrets_of_a_cluster_to_whoever_runs_it(master: str) -> None:
    for given, elsewhere in (({"spark.master": master}, {}), ({}, {"spark.master": master})):
        own = own_settings(given, elsewhere)
        assert not {*ADDRESSES, "spark.authenticate"} & {*own}
        assert not listens_on_loopback(given, elsewhere)
    assert not is_local_master(master)


def test_should_set_only_what_nobody_has_set() -> None:
    one = {"spark.driver.host": "10.0.0.5", "spark.authenticate": "false", "spark.ui.enabled": "true"}
    for given, elsewhere in ((one, {}), ({}, one)):
        own = own_settings(given, elsewhere)
        assert not {*one, "spark.driver.bindAddress"} & {*own}  # the address to bind to follows from the host
        assert own["spark.speculation"] == "false"


def test_should_give_each_stream_thread_a_task_slot_on_a_machine_with_fewer_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert [own_settings({}, {}, threads)["spark.master"] for threads in (0, 2, 4)] == ["local[*]", "local[*]", "local[4]"]
    for master in ("local[3]", "yarn"):
        assert "spark.master" not in own_settings({"spark.master": master}, {}, 4)
        assert "spark.master" not in own_settings({}, {"spark.master": master}, 4)


def test_should_leave_an_address_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.5")
    own = own_settings({}, {})
    assert not {*ADDRESSES} & {*own}
    assert own["spark.authenticate"] == "true"


def test_should_know_what_spark_submit_will_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# settings of the machine\n\nspark.master   spark://host:7077\n  spark.driver.host=10.0.0.5\nspark.app.note : a  b \n"
    )
    assert settings_elsewhere(frozenset()) == {
        "spark.master": "spark://host:7077",
        "spark.driver.host": "10.0.0.5",
        "spark.app.note": "a  b",
    }
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--master local[2] --conf 'spark.note=a b' -c spark.x=1=2 --conf=spark.y=3 pyspark-shell"
    )
    assert settings_elsewhere(frozenset()) == {
        "spark.master": "local[2]",
        "spark.driver.host": "10.0.0.5",
        "spark.app.note": "a  b",
        "spark.note": "a b",
        "spark.x": "1=2",
        "spark.y": "3",
    }
    other = tmp_path / "other.conf"
    other.write_text("spark.only this\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {shlex.quote(str(other))} pyspark-shell")
    assert settings_elsewhere(frozenset()) == {"spark.only": "this"}


def test_should_find_nothing_where_there_is_nothing() -> None:
    assert settings_elsewhere(frozenset()) == {}
