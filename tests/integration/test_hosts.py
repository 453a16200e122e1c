"""One instance over executors on hosts that share no disk: tasks run where their state is, and go where its copies are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun


@pytest.mark.slow
def test_should_replay_only_the_rest_when_a_host_is_lost(kafka: Any, tmp_path: Path) -> None:
    config = {"num.standby.replicas": 1, "batch.max.records": 2_000}
    with Cluster(workers=2, apart=True) as cluster, ClusterRun(cluster, kafka, tmp_path, config=config) as run:
        run.feed(2_000)
        run.wait_for_counts()
        run.wait(lambda: run.copied() == 0, "the copies are complete")
        executor = next(iter(run.last_places().values()))[0]
        before = run.restored
        cluster.kill_host_of(executor)
        run.feed(500)
        run.wait_for_counts()
        assert run.restored - before < 1_000  # of 6,000 records in the changelogs


@pytest.mark.slow
def test_should_move_tasks_when_their_state_is_there_from_one_executor_to_three_and_back(kafka: Any, tmp_path: Path) -> None:
    config = {
        "num.standby.replicas": 1,
        "acceptable.recovery.lag": 100,
        "num.stream.threads": 3,
        "batch.max.records": 2_000,
    }
    with Cluster(workers=1, apart=True) as cluster, ClusterRun(cluster, kafka, tmp_path, config=config, partitions=3) as run:
        run.feed(2_000)
        run.wait_for_counts()
        assert run.restored == 0
        cluster.add_workers(2)
        run.wait_for_executors(3)
        for left in (2, 1):
            assert run.restored < 1_000  # of 6,000 records in the changelogs: the rest was there before tasks moved
            run.wait(lambda: run.copied() == 0, "the copies are complete")
            cluster.kill_host_of(run.last_places()["0"][0])
            run.feed(300)
            run.wait_for_counts()
            run.wait_for_executors(left)
        assert run.restored < 1_000
