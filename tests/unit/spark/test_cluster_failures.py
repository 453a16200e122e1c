from __future__ import annotations

import pytest

from penstock.client.scheduling.failures import error_of, is_transient
from penstock.spark import internals
from penstock.spark.driver import spark_threads
from penstock.spark.messages import Failure


def test_should_take_up_again_what_a_lost_executor_left() -> None:
    lost = spark_threads._failure_of_job(
        "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited)\nmore", "python3"
    )
    assert is_transient(error_of(lost))


def test_should_end_where_the_session_was_stopped() -> None:
    error = error_of(Failure("SessionStopped", "gone", ""))
    assert not is_transient(error)
    assert "The SparkSession was stopped" in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "ModuleNotFoundError: No module named 'penstock'",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11",
        'java.io.IOException: Cannot run program "./env/bin/python": error=2',
    ],
)
def test_should_end_where_the_executors_python_cannot_run_penstock(words: str) -> None:
    error = error_of(
        spark_threads._failure_of_job(f"Job aborted due to stage failure\nTraceback\n  {words}\n at …", "/opt/env/bin/python")
    )
    assert not is_transient(error)
    assert words in str(error)
    assert "/opt/env/bin/python" in str(error)


def test_should_name_a_module_of_the_users_that_executors_do_not_have() -> None:
    error = error_of(spark_threads._failure_of_job("Job aborted\nModuleNotFoundError: No module named 'shop.prices'", "python3"))
    assert not is_transient(error)
    assert "no module shop" in str(error)
    assert "spark.submit.pyFiles" in str(error)
    assert "install penstock-streams" not in str(error)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"SPARK_EXECUTOR_ID": "7"}, "7"),
        ({"SPARK_LOG_URL_STDERR": "http://host:1/logPage/?appId=app-1&executorId=12&logType=stderr"}, "12"),
    ],
)
def test_should_tell_the_executor_a_worker_belongs_to(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_EXECUTOR_ID", "SPARK_LOG_URL_STDERR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert internals.own_executor_id() == expected
