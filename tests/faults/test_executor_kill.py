"""kill -9 of executors in the middle of turns: every word is counted 1, 2, 3 ... without a gap or a repeat."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as cluster:
        yield cluster


def kill_some(cluster: Cluster, run: ClusterRun, kills: int, seed: int) -> None:
    """Kill an executor in which a thread works, each time when turns have gone on since the last."""
    chance = random.Random(seed)
    run.feed(500)
    run.wait_for_executors(2)
    for kill in range(kills):
        run.feed(1_000, seed=kill)
        turns = len(run.turns)
        run.wait(lambda turns=turns: len(run.turns) > turns, "turns go on")
        time.sleep(chance.random() / 2)
        threads = [executor for executor, _ in run.last_places().values()]
        cluster.kill_executor(chance.choice([executor for executor in threads if executor in cluster.executors()]))
    run.wait_for_counts()


@pytest.mark.slow
def test_should_count_exactly_once_when_executors_are_killed(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    with ClusterRun(cluster, kafka, tmp_path) as run:
        kill_some(cluster, run, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["rocksdb", "in_memory"])
def test_should_count_exactly_once_through_many_kills(cluster: Cluster, kafka: Any, tmp_path: Path, store: str) -> None:
    with ClusterRun(cluster, kafka, tmp_path, store) as run:
        kill_some(cluster, run, kills=8, seed=2)
