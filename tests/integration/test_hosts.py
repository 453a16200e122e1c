"""One instance over executors on hosts that share no disk: tasks run where their state is, and go where its copies are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2, apart=True) as cluster:
        yield cluster


@pytest.mark.slow
def test_should_replay_only_the_rest_when_a_host_is_lost(cluster: Cluster, kafka: Any, tmp_path: Path) -> None:
    with ClusterRun(cluster, kafka, tmp_path, config={"num.standby.replicas": 1, "batch.max.records": 2_000}) as run:
        run.feed(2_000)
        run.wait_for_counts()
        run.wait(lambda: run.copied() == 0, "the copies are complete")
        executor = next(iter(run.turns[-1]["lanes"].values()))[0]
        before = run.restored
        cluster.kill_host_of(executor)
        run.feed(500)
        run.wait_for_counts()
        assert run.restored - before < 1_000  # of 6,000 records in the changelogs
