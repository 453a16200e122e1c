"""Executors that are taken away, excluded, gone, or busy with others while an application runs on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun, Steady
from tests.harness.sharing import SharedProcess
from tests.integration.test_shared_session import Application

TOGETHER: dict[str, Any] = {"task.spread": "auto", "num.stream.threads": None}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=3, decommissions=True) as cluster:
        yield cluster


def active_executor(run: ClusterRun) -> str:
    """The executor of the last batch."""
    ((executor, _),) = run.turns[-1]["threads"].values()
    return str(executor)


def work_elsewhere(run: ClusterRun, steady: Steady, leaves: str) -> None:
    """Wait until batches come from another executor for a while; then all has been counted once."""
    run.wait(lambda: active_executor(run) != leaves, "it works on another executor")
    moved = len(run.turns)
    run.wait(lambda: len(run.turns) > moved + 100, "it goes on there")
    steady.__exit__()
    assert not any("belongs on" in line for line in run.errors)
    run.wait_for_counts()
    print(f"\nsilence: {steady.silence:.1f} s")


@pytest.mark.slow  # a cluster of its own
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown to the application", "with spark.decommission.enabled"])
def test_should_leave_an_executor_that_is_decommissioned(cluster: Cluster, kafka: Any, tmp_path: Path, is_known: bool) -> None:
    settings = dict.fromkeys(("spark.decommission.enabled", "spark.storage.decommission.enabled"), str(is_known).lower())
    with ClusterRun(cluster, kafka, tmp_path, given=True, config={**TOGETHER, **settings}) as run, Steady(run) as steady:
        run.wait(lambda: len(run.turns) > 20, "it works")
        cluster.add_workers()  # in place of the one that leaves
        leaves = active_executor(run)
        steady.begin()
        cluster.decommission_worker_of(leaves)
        work_elsewhere(run, steady, leaves)


@pytest.mark.slow  # a cluster of its own
def test_should_leave_an_executor_that_is_excluded_after_failures_of_a_users_job(
    cluster: Cluster, kafka: Any, tmp_path: Path
) -> None:
    excluding = {
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "2",
        "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "2",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "2",
        "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": "100",
        "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": "100",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "30",
        "spark.task.maxFailures": "40",
        "spark.locality.wait": "60s",
    }
    with ClusterRun(cluster, kafka, tmp_path, given=True, config={**TOGETHER, **excluding}) as run, Steady(run) as steady:
        run.wait(lambda: len(run.turns) > 20, "it works")
        leaves = active_executor(run)
        steady.begin()
        assert run.ask("fail on", executor=leaves) == "excluded"
        work_elsewhere(run, steady, leaves)
        assert any("is excluded after failures" in line for line in run.errors)
        assert not any("all are taken" in line for line in run.errors)


@pytest.mark.slow  # a cluster of its own
def test_should_stay_where_it_is_while_spark_tries_it_on_another_executor(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    """A session of the user's with Spark's own `spark.locality.wait`; all executors are on one host."""
    with ClusterRun(cluster, kafka, tmp_path, given=True, config={**TOGETHER, "spark.locality.wait": "1s"}) as run:
        with Steady(run) as steady:
            run.wait(lambda: len(run.turns) > 20, "it works")
            stays = run.turns[-1]["threads"]
            restored = run.restored
            assert run.ask("occupy", executor=active_executor(run), seconds=12) == "done"
            again = len(run.turns)
            run.wait(lambda: len(run.turns) > again + 50, "it goes on")
            steady.__exit__()
        run.wait_for_counts()
        assert run.turns[-1]["threads"] == stays, "the process that has the stores open is the same"
        assert run.restored == restored
        assert not any("was ended" in line for line in run.errors)


@pytest.mark.slow  # a cluster of its own
def test_should_leave_the_group_at_once_if_it_fails_for_want_of_executors(kafka: Any, tmp_path: Path) -> None:
    with (
        Cluster(workers=2) as cluster,
        ClusterRun(cluster, kafka, tmp_path, given=True, config={"num.stream.threads": 4, "task.timeout.ms": 3_000}) as run,
    ):
        run.feed(100)
        run.wait_for_counts()
        for index in range(2):
            cluster.kill_worker(index)
        run.wait(lambda: "PENDING_ERROR" in run.states, "it fails", interval=0.01)
        failed = time.monotonic()
        run.wait(lambda: not kafka.members(run.application_id), "it has left the group")
        left = time.monotonic()
        run.wait(lambda: "ERROR" in run.states, "it has ended")
        print(f"\nfrom the failure it took {left - failed:.1f} s to leave the group, {time.monotonic() - failed:.1f} s to end")


def test_should_refuse_tasks_that_need_more_cores_than_executors_have(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    settings = {"spark.task.cpus": "2", "spark.executor.cores": None}
    with ClusterRun(cluster, kafka, tmp_path, given=True, config=settings) as run:
        run.wait_for_end()
        assert any("ConfigError: spark.task.cpus=2 is more than the executors have (1 core each)" in line for line in run.errors)


@pytest.mark.slow  # a cluster of its own
def test_should_add_threads_for_executors_that_come(kafka: Any, tmp_path: Path) -> None:
    config = {"num.stream.threads": None, "task.spread": "always"}
    with Cluster(workers=2) as cluster, ClusterRun(cluster, kafka, tmp_path, given=True, config=config, partitions=4) as run:
        run.feed(100)
        run.wait_for_counts()
        assert len(run.last_places()) == 2
        cluster.add_workers(2)
        run.wait_for_executors(4)
        assert len(run.last_places()) == 4


@pytest.mark.slow  # it waits until Spark gives executors back
def test_should_spread_as_executors_come_and_give_them_back_with_dynamic_allocation(
    cluster: Cluster, kafka: Any, tmp_path: Path
) -> None:
    dynamic = {
        **TOGETHER,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "45s",
        "spark.dynamicAllocation.maxExecutors": "3",
    }
    with ClusterRun(cluster, kafka, tmp_path, given=True, config=dynamic, partitions=6) as run:
        run.feed(20)
        began = time.monotonic()
        run.wait(lambda: run.turns, "it works")
        print(f"\nfirst output after {time.monotonic() - began:.1f} s")
        run.wait_for_counts()
        run.feed(400_000)
        run.wait(lambda: len(cluster.executors()) == 3, "it has more executors")
        run.wait(lambda: len({executor for executor, _ in run.last_places().values()}) == 3, "it works on all of them")
        run.wait(lambda: len(cluster.executors()) == 1, "they are given back but one")
        run.feed(20)
        run.wait_for_counts()


@pytest.mark.slow  # a cluster of its own
def test_should_put_two_applications_of_a_session_on_executors_of_their_own(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    with SharedProcess(tmp_path, environment=cluster.environment) as process:
        process.do("make_session", settings={**cluster.settings, "spark.cores.max": "3", "spark.locality.wait": "60s"})
        together = {"num.stream.threads": None, "task.spread": "auto"}
        first, second = (Application(process, kafka, tmp_path / str(n), **together) for n in range(2))
        assert first.works()
        assert second.works()
        (one,), (other,) = first.ask("places"), second.ask("places")
        assert one != other
        assert second.ask("close")
        assert first.ask("close")
