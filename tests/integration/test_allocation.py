"""A cluster on the terms of whoever runs it: what `spark-submit` was told is kept, and executors come and go with the work."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.conftest import application_config
from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun
from tests.harness.kafka import Kafka, unique
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, keyed, topics, up_to

_ROOT = Path(__file__).parents[2]
_APP = _ROOT / "tests" / "harness" / "apps" / "submitted.py"
_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as cluster:
        yield cluster


@pytest.mark.slow
def test_should_keep_the_master_and_the_settings_of_spark_submit(cluster: Cluster, kafka: Kafka, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    config = application_config(kafka, tmp_path, {"application.id": unique("submitted")})
    settings = {key: value for key, value in cluster.settings.items() if key != "spark.master"}
    submitted = {**settings, "spark.locality.wait": "17s", "spark.ui.retainedJobs": "123", "spark.cores.max": "1"}
    options = [option for key, value in submitted.items() for option in ("--conf", f"{key}={value}")]
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT))))
    kafka.feed(source, keyed("aab"))
    errors, arguments = tmp_path / "errors", json.dumps({"config": config, "topics": [source, out], "folder": str(tmp_path)})
    with errors.open("w") as log:
        process = subprocess.Popen(
            [str(_SUBMIT), "--master", cluster.master, *options, str(_APP), arguments],
            env={**cluster.environment, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
        )
    try:
        assert counts(kafka, out, 3) == up_to(a=2, b=1), errors.read_text()
        (tmp_path / "end").touch()
        assert process.wait(LIMIT) == 0, errors.read_text()
    finally:
        process.kill()
        process.wait()
    found = json.loads((tmp_path / "settings.json").read_text())
    assert found.pop("executors") == 1
    assert found.items() >= {**submitted, "spark.master": cluster.master}.items()


@pytest.mark.slow
def test_should_start_and_grow_with_dynamic_allocation_at_sparks_defaults(cluster: Cluster, kafka: Kafka, tmp_path: Path) -> None:
    dynamic = {"spark.dynamicAllocation.enabled": "true", "num.stream.threads": None}
    with ClusterRun(cluster, kafka, tmp_path, given=True, config=dynamic) as run:
        run.feed(200)  # Spark gives it no executor before it has tasks
        run.wait_for_counts()
        run.wait_for_executors(2)


@pytest.mark.slow
def test_should_go_on_after_spark_has_given_up_all_executors(cluster: Cluster, kafka: Kafka, tmp_path: Path) -> None:
    short = {f"spark.dynamicAllocation.{key}": "15s" for key in ("executorIdleTimeout", "shuffleTracking.timeout")}
    with ClusterRun(cluster, kafka, tmp_path, given=True, config={"spark.dynamicAllocation.enabled": "true", **short}) as run:
        run.feed(200)
        run.wait_for_counts()
        run.wait(lambda: not cluster.executors(), "the executors are given up")
        run.feed(200)
        run.wait_for_counts()
