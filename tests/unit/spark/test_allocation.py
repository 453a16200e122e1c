from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.driver import allocation
from penstock.spark.driver.allocation import Allocation, request_executor

ON = {"spark.master": "spark://host:7077", "spark.dynamicAllocation.enabled": "true"}


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "spark://host:7077"},
        {**ON, "spark.dynamicAllocation.enabled": "false"},
        {**ON, "spark.master": "local[4]"},
    ],
)
def test_should_know_where_executors_do_not_come_and_go(settings: dict[str, str]) -> None:
    assert Allocation.of(settings) is None


def test_should_have_sparks_defaults() -> None:
    assert Allocation.of(ON) == Allocation(most=None, idle_seconds=60, keeps_shuffles=True)


def test_should_have_threads_for_all_executors_that_can_come_but_no_more_than_tasks() -> None:
    found = Allocation.of({**ON, "spark.dynamicAllocation.maxExecutors": "3"})
    assert found is not None
    assert [found.threads(slots=4, tasks=tasks) for tasks in (0, 5, 100)] == [1, 5, 12]


def test_should_ask_for_one_executor_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [1_000.0], []
    monkeypatch.setattr(allocation.time, "monotonic", lambda: now[0])

    class Context:
        _jsc: Any = SimpleNamespace(sc=lambda: SimpleNamespace(requestExecutors=asked.append))

    context: Any = Context()
    for seconds in (0, 10, 49, 1, 10):
        now[0] += seconds
        request_executor(context)
    assert asked == [1, 1]
