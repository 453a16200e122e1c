"""All lanes of an application, and how one turn runs over them: one Spark task, or a shuffle and a job for each lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

from penstock.ids import TaskId, TopicPartition
from penstock.spark.lanes import Lane
from penstock.spark.messages import Application, Committed, Failure, LaneAnswer, OpenTurn, ProcessTurn, TaskWork, UpstreamWork
from penstock.spark.placement import executors, located
from penstock.spark.worker import close_lane, packed, run_stage, run_turn


class Fleet:
    """The lanes of one application on one Spark session."""

    def __init__(self, spark: SparkSession, application: Application, names: Sequence[str]) -> None:
        self._spark = spark.sparkContext
        self._application = application
        self._packed = packed(application)
        places: list[str | None] = [*executors(self._spark)] or [None]
        self.lanes = [Lane(self._spark, name, places[i % len(places)]) for i, name in enumerate(names)]

    def replace_application(self, application: Application) -> None:
        """Run another plan: lanes open it anew, and close what they had of the old one."""
        self._application = application
        self._packed = packed(application)

    def open(self, owned: Mapping[int, Mapping[TaskId, Committed]], seconds: float = 2.0) -> dict[int, LaneAnswer]:
        """Let each lane own exactly its tasks; called again until nothing is restoring."""
        turns = {
            lane: self.lanes[lane].submit(
                partial(run_turn, OpenTurn(self._application.key, lane, dict(tasks), self._packed, seconds)),
                f"{self.lanes[lane].name}: open {', '.join(map(str, tasks)) or 'nothing'}",
            )
            for lane, tasks in owned.items()
        }
        return _answers(turns)

    def process(
        self,
        work: Mapping[int, Mapping[TaskId, TaskWork]],
        upstream: Sequence[UpstreamWork],
        owners: Mapping[TaskId, int],
        group_metadata: bytes,
        global_ends: Mapping[TopicPartition, int],
        description: str,
    ) -> dict[int, LaneAnswer]:
        """Run one turn; lanes with nothing to do are not asked."""
        in_lane = upstream if len(work) <= 1 else ()
        shuffled = self._shuffle(upstream, owners) if upstream and not in_lane else None
        turns = {}
        for lane, tasks in work.items():
            turn = ProcessTurn(self._application.key, lane, dict(tasks), tuple(in_lane), group_metadata, dict(global_ends))
            name = f"{self.lanes[lane].name}: {description}"
            if shuffled is None:
                turns[lane] = self.lanes[lane].submit(partial(run_turn, turn), name)
            else:
                turns[lane] = self.lanes[lane].submit_partition(shuffled, lane, partial(run_turn, turn), name)
        return _answers(turns)

    def close(self, timeout: float | None = None) -> None:
        """Close what the lanes keep open, then the lanes."""
        closing = [
            lane.submit(partial(close_lane, self._application.key, index), f"{lane.name}: close")
            for index, lane in enumerate(self.lanes)
        ]
        for future in closing:
            try:
                future.result(timeout)
            except Exception:  # noqa: BLE001 - a worker that is gone has nothing left to close
                continue
        for lane in self.lanes:
            lane.close()

    def _shuffle(self, upstream: Sequence[UpstreamWork], owners: Mapping[TaskId, int]) -> RDD[Any]:
        """The map stage that all lanes share: run once, its blobs sorted by lane."""
        plan = self._application.plan
        targets: dict[TopicPartition, int] = {}
        for task_id, lane in owners.items():
            for topic in plan.subtopologies[task_id.subtopology].source_topics:
                if topic in plan.shuffled:
                    targets[TopicPartition(topic, task_id.partition)] = lane
        stage = partial(_stage, self._packed, targets)
        rows = self._spark.parallelize(upstream, len(upstream)).mapPartitions(stage)
        shuffled = rows.partitionBy(len(self.lanes), _to_lane)
        if all(lane.executor is None for lane in self.lanes):
            return shuffled
        places = located(self._spark, [lane.executor for lane in self.lanes])
        return places.zip(shuffled.mapPartitions(_as_one_row, preservesPartitioning=True)).mapPartitions(_unzip)


def _stage(
    application: bytes, targets: Mapping[TopicPartition, int], rows: Iterator[UpstreamWork]
) -> Iterator[tuple[int, bytes]]:
    for work in rows:
        yield from run_stage(application, targets, work)


def _to_lane(lane: int) -> int:
    return lane


def _as_one_row(rows: Iterator[Any]) -> Iterator[list[Any]]:
    yield list(rows)


def _unzip(rows: Iterator[tuple[int, list[Any]]]) -> Iterator[Any]:
    for _, blobs in rows:
        yield from blobs


def _answers(turns: Mapping[int, Future[LaneAnswer]]) -> dict[int, LaneAnswer]:
    """What each lane said; a job that failed as a whole (a worker or an executor died) counts as a lost lane."""
    answers = {}
    for lane, future in turns.items():
        try:
            answers[lane] = future.result()
        except Exception as exc:  # noqa: BLE001 - Spark reports a dead worker as one of many exceptions
            answers[lane] = LaneAnswer("gone", lost=True, failure=Failure("LaneLost", str(exc).splitlines()[0], str(exc)))
    return answers
