from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.spark.driver.preflight import SUPPORTED, Surroundings, check_surroundings

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
CLUSTER = {"spark.master": "spark://host:7077", "spark.locality.wait": "60s"}
DYNAMIC = {**CLUSTER, "spark.dynamicAllocation.enabled": "true"}


def check(settings: Mapping[str, str], version: str = "4.3.0", **known: object) -> list[str]:
    return check_surroundings(Surroundings(settings, version, **known))  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{}, {"spark.master": "local[2]"}, CLUSTER, DYNAMIC])
def test_should_have_nothing_to_say_of_settings_that_work(settings: dict[str, str]) -> None:
    assert check(settings) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"spark.python.worker.reuse": "false"}, ["spark.python.worker.reuse=false", "set it to true"]),
        ({"spark.python.use.daemon": "False"}, ["spark.python.use.daemon=false", "set it to true"]),
        ({"spark.remote": "sc://host"}, ["Spark Connect", "spark.api.mode=classic"]),
        ({"spark.api.mode": "connect"}, ["Spark Connect", "spark.api.mode=classic"]),
        (
            {**CLUSTER, "spark.speculation": "true", "spark.speculation.task.duration.threshold": "5s"},
            ["spark.speculation.task.duration.threshold", "refused"],
        ),
        ({"spark.task.cpus": "two"}, ["spark.task.cpus=two is not a whole number"]),
        ({**CLUSTER, "spark.executor.cores": "two"}, ["spark.executor.cores=two is not a whole number"]),
        ({"spark.master": "local[2]", "spark.task.cpus": "3"}, ["spark.task.cpus=3", "local[2]", "spark.master to local[3]"]),
        ({"spark.master": "local", "spark.task.cpus": "2"}, ["spark.task.cpus=2"]),
        (
            {**CLUSTER, "spark.task.cpus": "4", "spark.executor.cores": "2"},
            ["spark.task.cpus=4", "an executor of 2 cores", "spark.executor.cores to 4"],
        ),
        (
            {**DYNAMIC, "spark.dynamicAllocation.shuffleTracking.enabled": "false"},
            ["spark.dynamicAllocation.enabled=true", "shuffleTracking.enabled to true"],
        ),
    ],
)
def test_should_refuse_what_cannot_work(settings: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        check(settings)
    assert [word for word in words if word not in str(raised.value)] == []
    assert "\n" not in str(raised.value)


def test_should_tell_all_that_cannot_work_at_once_a_sentence_each() -> None:
    with pytest.raises(ConfigError) as raised:
        check({"spark.python.worker.reuse": "false", "spark.python.use.daemon": "false"}, "3.5.1")
    assert len(str(raised.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"session_class": "pyspark.sql.connect.session.SparkSession"}, "Spark Connect"),
        ({"is_remote": True}, "Spark Connect"),
        ({"session_class": "shop.Session"}, "spark is a shop.Session"),
        ({"is_stopped": True}, "has been stopped"),
    ],
)
def test_should_refuse_a_session_that_it_cannot_run_on(known: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check({}, **known)


@pytest.mark.parametrize("version", ["3.5.4", "5.0.0", "5.1.0.dev2"])
def test_should_refuse_a_version_that_is_not_supported(version: str) -> None:
    with pytest.raises(ConfigError, match=f"pyspark {re.escape(version)} is not supported"):
        check({}, version)


def test_should_support_the_versions_that_are_installed_with_it() -> None:
    oldest, newest = SUPPORTED
    assert f'"pyspark>={oldest[0]}.{oldest[1]},<{newest[0]}"' in PYPROJECT.read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**CLUSTER, "spark.speculation": "true"}, "spark.speculation=true"),
        ({"spark.master": "local[2]", "spark.scheduler.pool": "threads"}, "spark.scheduler.pool=threads has no effect"),
        ({**DYNAMIC, "spark.dynamicAllocation.executorIdleTimeout": "30s"}, "executorIdleTimeout=30s"),
        ({"spark.master": "spark://host:7077"}, "spark.locality.wait=3s"),
        ({**CLUSTER, "spark.executor.pyspark.memory": "700m"}, "spark.executor.pyspark.memory=700m"),
    ],
)
def test_should_warn_of_what_is_unwise(settings: dict[str, str], words: str) -> None:
    (warning,) = check(settings)
    assert words in warning


def test_should_warn_of_a_pyspark_of_another_version_than_sparks() -> None:
    (warning,) = check({}, "4.3.0", spark_version="4.2.1")
    assert "Spark is 4.2.1 and pyspark 4.3.0" in warning
    assert check({}, "4.3.0", spark_version="4.3.1") == []


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "local[2]", "spark.speculation": "true"},
        {"spark.master": "local[2]", "spark.dynamicAllocation.enabled": "true"},
        {"spark.master": "local[2]", "spark.scheduler.pool": "threads", "spark.scheduler.mode": "FAIR"},
        {**DYNAMIC, "spark.dynamicAllocation.shuffleTracking.enabled": "false", "spark.shuffle.service.enabled": "true"},
        {**CLUSTER, "spark.task.cpus": "4"},
    ],
)
def test_should_leave_alone_what_does_no_harm(settings: dict[str, str]) -> None:
    assert check(settings) == []
