"""A stage before a shuffle that Spark computes again, after one lane has taken its part of the first computation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.scheduling.failures import error_of, is_transient
from penstock.errors import TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.runtime.flow import Flow
from penstock.runtime.task_metrics import TaskCounts
from penstock.spark.answers import read_answer
from penstock.spark.batch import ShuffledBatch
from penstock.spark.blobs import read_blobs
from penstock.spark.messages import LaneAnswer, ProcessTurn, UpstreamWork
from penstock.spark.worker import lane_worker

FIRST, SECOND = TopicPartition("words", 0), TopicPartition("words", 1)
LANES = {FIRST: 0, SECOND: 1}
DRIVER = 2
WORK = UpstreamWork(0, 0, ())


class Stage:
    """A task before the shuffle; what it makes of the record it reads is told by `salts`, one for each computation."""

    def __init__(self, salts: Iterator[int]) -> None:
        self._salts = salts
        self.seconds = itertools.count()

    def upstream(self, work: UpstreamWork) -> tuple[dict[TopicPartition, ShuffledBatch], int]:
        target = (FIRST, SECOND)[next(self._salts) % 2]
        return {target: ShuffledBatch.of_rows([(b"key", b"value", 7, (), 0, 0)])}, 1

    def take_counts(self, task: TaskId, processed: int, _: float) -> TaskCounts:
        return TaskCounts(task, processed, float(next(self.seconds)))  # never the same twice

    def take_flow(self) -> Flow:
        return Flow()


def computed(monkeypatch: pytest.MonkeyPatch, *salts: int) -> list[dict[int, list[bytes]]]:
    """The blobs for each lane of one computation after the other, by the same functions."""
    stage = Stage(iter(salts))
    monkeypatch.setattr(lane_worker, "_stage_lane", lambda application: SimpleNamespace(tasks=stage))
    monkeypatch.setattr(lane_worker, "unpacked", lambda application: SimpleNamespace(plan=None))
    monkeypatch.setattr(lane_worker, "side_target", lambda plan, work: FIRST)
    found = []
    for _ in salts:
        blobs: dict[int, list[bytes]] = {0: [], 1: [], DRIVER: []}
        for lane, blob in lane_worker.run_stage(b"", LANES, DRIVER, WORK):
            blobs[lane].append(blob)
        found.append(blobs)
    return found


def turn_of(lane: int, driver: list[bytes], blobs: list[bytes]) -> LaneAnswer:
    turn = ProcessTurn("key", lane, {}, (), b"", stages=read_blobs(driver).checksums)
    return read_answer(next(iter(lane_worker.run_turn(turn, iter(blobs)))))


def test_should_take_a_second_computation_that_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    once, again = computed(monkeypatch, 3, 3)
    for lane, blobs in ((0, once[0]), (1, again[1])):
        answer = turn_of(lane, once[DRIVER], blobs)
        assert answer.failure is None
        assert answer.lost  # it went as far as to look for the lane, which nobody has opened here


def test_should_drop_the_turn_where_a_second_computation_gives_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record went to lane 1 at first, and to lane 0 when it was computed again: lane 1 would never have had it."""
    once, again = computed(monkeypatch, 3, 4)
    assert turn_of(0, once[DRIVER], once[0]).failure is None
    answer = turn_of(1, once[DRIVER], again[1])
    assert answer.failure is not None
    error = error_of(answer.failure)
    assert isinstance(error, TaskMigratedError)
    assert is_transient(error)
    assert "0_0 gave other records than before" in str(error)


def test_should_not_take_what_is_missing_for_what_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    once, again = computed(monkeypatch, 3, 4)
    mixed: Any = [*once[1][:-1], *again[1]]
    assert turn_of(1, once[DRIVER], mixed).failure is not None
