"""The same application on a standalone cluster: where its threads run, what a lost executor costs, how code gets there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun
from tests.harness.waiting import LIMIT


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=1) as cluster:
        yield cluster


@pytest.fixture
def grown(cluster: Cluster) -> Cluster:
    """The same with two workers at least."""
    if cluster.workers < 2:
        cluster.add_workers()
    return cluster


@pytest.mark.slow  # a cluster of its own that grows
def test_should_use_an_executor_that_comes_later_and_keep_threads_on_theirs(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    with ClusterRun(cluster, kafka, tmp_path) as run:
        run.feed(200)
        run.wait_for_counts()
        assert {executor for places in run.places().values() for executor, _ in places} == {"0"}
        cluster.add_workers()
        run.wait_for_executors(2)
        before, restored = len(run.turns), run.restored
        run.feed(3_000)
        run.wait_for_counts()
        places = run.places(before)
        assert len(run.turns) - before >= 30
        assert [len(set(seen)) for seen in places.values()] == [1, 1], "a thread changed its executor or its worker"
        assert {seen[0][0] for seen in places.values()} == {"0", "1"}
        assert run.restored == restored, "a thread that stays has its state open"


@pytest.mark.slow  # it waits for the lost thread to work again
def test_should_go_on_from_the_changelog_when_an_executor_is_lost(grown: Cluster, kafka: Any, tmp_path: Path) -> None:
    with ClusterRun(grown, kafka, tmp_path, "in_memory", given=True) as run:
        run.feed(200)
        run.wait_for_counts()
        run.wait_for_executors(2)
        lost = run.last_places()["1"][0]
        restored = run.restored
        run.feed(1_000)
        grown.kill_executor(lost)
        run.wait_for_counts()
        assert run.restored > restored, "what was in memory only came from the changelog"

        def works_elsewhere() -> bool:
            run.feed(40)
            return lost not in {executor for executor, _ in run.last_places().values()}

        run.wait(works_elsewhere, "the thread of the lost executor works on another", interval=0.5)
        run.wait_for_counts()


@pytest.mark.slow  # two starts on the cluster
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_stay_on_an_executor_for_turn_after_turn_be_read_and_go_on_when_it_is_lost(
    grown: Cluster, kafka: Any, tmp_path: Path, guarantee: str
) -> None:
    together = {"task.spread": "auto", "batch.max.records": 500_000, "processing.guarantee": guarantee}
    with ClusterRun(grown, kafka, tmp_path, "in_memory", config=together) as run:

        def stays_again() -> bool:
            run.feed(5)
            return bool(run.ask("stays") > before)

        before = 0
        run.wait(stays_again, "a thread stays", interval=0.1)
        assert sum(run.ask("store", stale=False).values()) <= sum(run.expected.values())  # of the thread's own process
        run.wait_for_counts()
        run.wait(lambda: run.turns, "its turns are told when it has left")
        ((executor, _),) = run.turns[-1]["threads"].values()
        before = run.ask("stays")
        run.wait(stays_again, "it stays once more", interval=0.1)
        grown.kill_executor(executor)
        before = run.ask("stays")
        run.wait(stays_again, "it stays on another", interval=0.1)
        if guarantee == "exactly_once_v2":
            run.wait_for_counts()
        else:
            run.wait(run.has_counted_all, "nothing is lost")


@pytest.mark.slow  # a driver and executors of its own; what it shows is played in tests/unit/spark/test_recomputed.py
def test_should_take_what_is_computed_again_only_if_it_is_the_same(grown: Cluster) -> None:
    """One thread has its part of a stage when an executor dies; Spark computes what that had again for the other thread."""
    app = Path(__file__).parent.parent / "harness" / "apps" / "recomputed.py"
    command = [sys.executable, str(app), json.dumps({**grown.settings, "spark.ui.enabled": "false"})]
    done = subprocess.run(command, env=grown.environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    repeating, others = json.loads(done.stdout)
    assert repeating == ["taken", "taken"]
    assert others[0] == "taken"
    assert "gave other records than before" in others[1]
