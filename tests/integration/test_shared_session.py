"""An application in a session that its user works in at the same time."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.functions import udf

from penstock.client import pace
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import counts, texts, topics, up_to
from tests.integration.topologies import word_count

Run = Callable[..., Any]


class UsersJobs:
    """Threads that each run a job again and again until the end; what their functions saw, and what went wrong."""

    def __init__(self, *jobs: Callable[[], Any]) -> None:
        self.seen: list[list[Any]] = [[] for _ in jobs]
        self.errors: list[BaseException] = []
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=pair) for pair in zip(jobs, self.seen)]

    def _run(self, job: Callable[[], Any], seen: list[Any]) -> None:
        while not self._done.is_set():
            try:
                seen.append(job())
            except Exception as exc:  # noqa: BLE001 - the test shows it
                self.errors.append(exc)

    def __enter__(self) -> UsersJobs:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


def test_should_share_a_session_with_rdds_udfs_and_tables_of_its_own_state(
    kafka: Kafka, spark: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_SPREAD_ABOVE", -1)  # both lanes, and the stage before the shuffle, from the first turn
    context, (source, out) = spark.sparkContext, topics(kafka, "in", "out", partitions=4)
    config = {"application.id": unique("shared"), "processing.guarantee": "exactly_once_v2", "num.stream.threads": 2}
    streams = run(word_count(source, out), config)
    words = [f"w{i}" for i in range(20)]
    kafka.feed(source, texts(*((word, word) for word in words)))
    assert counts(kafka, out, 20) == up_to(**dict.fromkeys(words, 1))

    def lane_of_rdd() -> list[str | None]:
        found: list[str | None] = context.parallelize(range(2), 2).map(lambda _: os.environ.get("PENSTOCK_LANE")).collect()
        return found

    lane_of = udf(lambda _: os.environ.get("PENSTOCK_LANE"), "string", useArrow=False)

    def lane_of_udf() -> list[str | None]:
        return [row.lane for row in spark.range(2).select(lane_of("id").alias("lane")).collect()]

    def rows_of_state() -> int:
        return int(streams.store_dataframe("counts").count())

    with UsersJobs(lane_of_rdd, lane_of_rdd, lane_of_udf, rows_of_state) as jobs:
        for round_ in itertools.count(2):
            kafka.feed(source, texts(*((word, word) for word in words)))
            assert counts(kafka, out, round_ * 20) == up_to(**dict.fromkeys(words, round_))
            if round_ > 15 and all(len(seen) > 5 for seen in jobs.seen):
                break
    *lanes, tables = jobs.seen
    assert not jobs.errors
    assert set(itertools.chain.from_iterable(itertools.chain.from_iterable(lanes))) == {None}
    assert set(tables) == {20}
    assert streams.failure is None
    assert "PENSTOCK_LANE" not in context.environment
    wait_until(lambda: streams.state.name == "RUNNING", "the application runs")
