"""Which executors run tasks, as Spark's scheduler and its status store tell it; Spark is played."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from penstock.spark.driver.placement import Executors, NoExecutorsError, executors, known_places, wait_for_executors


def summary(executor: str, host: str = "10.0.0.7", *, excluded: bool = False) -> Any:
    """What the status store knows of an executor; without a block manager it has no host yet."""
    told = {"id": executor, "hostPort": f"{host}:4040" if host else "", "totalCores": 2, "isExcluded": excluded}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in told.items()})


def context(summaries: list[Any], registered: str, is_active: Callable[[str], bool]) -> Any:
    known = SimpleNamespace(size=lambda: len(summaries), apply=summaries.__getitem__)
    java = SimpleNamespace(
        getExecutorIds=lambda: SimpleNamespace(mkString=lambda separator: registered),
        statusStore=lambda: SimpleNamespace(executorList=lambda active: known),
        schedulerBackend=lambda: SimpleNamespace(isExecutorActive=is_active),
    )
    conf = SimpleNamespace(getAll=list, get=lambda _, default: default)
    return SimpleNamespace(master="spark://host:7077", _jsc=SimpleNamespace(sc=lambda: java), getConf=lambda: conf)


def test_should_leave_out_executors_that_are_decommissioned_excluded_lost_or_not_there_yet() -> None:
    known = [summary("1"), summary("2"), summary("3", excluded=True), summary("4"), summary("5", host="")]
    spark = context(known, "1,2,3,5", lambda executor: executor != "2")
    assert executors(spark) == ["executor_10.0.0.7_1"]
    assert known_places(spark).refused == {
        "executor_10.0.0.7_2": "is being decommissioned, or about to end",
        "executor_10.0.0.7_3": "is excluded after failures (spark.excludeOnFailure)",
    }


def test_should_take_all_executors_for_usable_with_a_cluster_manager_that_does_not_tell() -> None:
    def unknown(_: str) -> bool:
        raise Py4JError("Method isExecutorActive([class java.lang.String]) does not exist")

    assert known_places(context([summary("1")], "1", unknown)) == Executors(["executor_10.0.0.7_1"], {})


def test_should_know_of_no_executors_in_local_mode() -> None:
    local: Any = SimpleNamespace(master="local[2]")
    assert known_places(local) == Executors([])


def test_should_say_why_none_of_the_executors_there_are_can_be_used() -> None:
    spark = context([summary("3", excluded=True)], "3", lambda executor: True)
    with pytest.raises(NoExecutorsError, match=r"executor_10\.0\.0\.7_3 is excluded after failures"):
        wait_for_executors(spark, -1.0)
