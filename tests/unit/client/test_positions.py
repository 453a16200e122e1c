from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from penstock.client.positions import Positions
from penstock.clock import ManualClock
from penstock.ids import TaskId, TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.plan import Plan

LINES = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
WORDS = [TopicPartition("app-words-repartition", 0), TopicPartition("app-words-repartition", 1)]


class FakeAdmin:
    """Logs that start at 0."""

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)


def positions(committed: dict[TopicPartition, OffsetAndMetadata]) -> Positions:
    before: Any = SimpleNamespace(id=0, source_topics=("lines",), repartition_source_topics={})
    behind: Any = SimpleNamespace(id=1, source_topics=(WORDS[0].topic,), repartition_source_topics={WORDS[0].topic: None})
    plan = Plan({0: before, 1: behind}, {"lines": 2, WORDS[0].topic: 2}, {WORDS[0].topic: 0})
    builder: Any = SimpleNamespace(offset_reset_strategy=lambda topic, group: None)
    admin: Any = FakeAdmin()

    def read_committed(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: committed[p] for p in partitions if p in committed}

    found = Positions(plan, "app", admin, read_committed, builder, "earliest", ManualClock(0))
    found.load([TaskId(1, 0), TaskId(1, 1)])
    return found


def test_should_start_a_task_behind_a_shuffle_where_its_vector_says() -> None:
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|3,4"), WORDS[1]: OffsetAndMetadata(0, "|9|5,6")})
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 5, LINES[1]: 6}}
    assert found.lowest(LINES[0]) == 3


def test_should_start_a_task_without_a_vector_at_the_offsets_of_the_sources() -> None:
    """As the driver commits them, or a reset of the application sets them."""
    found = positions({LINES[0]: OffsetAndMetadata(8), WORDS[1]: OffsetAndMetadata(0, "|9|10,11")})
    assert found.vectors == {WORDS[0]: {LINES[0]: 8, LINES[1]: 0}, WORDS[1]: {LINES[0]: 10, LINES[1]: 11}}


def test_should_read_again_what_a_closed_task_had_fetched_and_not_committed() -> None:
    found = positions({WORDS[0]: OffsetAndMetadata(0, "|7|3,4")})
    for vector in found.vectors.values():
        vector.update({LINES[0]: 50, LINES[1]: 50})
    found.forget_fetched(TaskId(1, 0))
    found.forget_fetched(TaskId(1, 1))
    assert found.vectors == {WORDS[0]: {LINES[0]: 3, LINES[1]: 4}, WORDS[1]: {LINES[0]: 0, LINES[1]: 0}}
