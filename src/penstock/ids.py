"""Ids are types: a task, a topic partition; never a bare tuple or string."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic.

    >>> str(TopicPartition("orders", 3))
    'orders-3'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """A task: one partition of one sub-topology, written as Kafka Streams writes it.

    >>> str(TaskId(0, 3)), TaskId.parse("1_12")
    ('0_3', TaskId(subtopology=1, partition=12))
    """

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The task id that `str` wrote; raises ValueError for anything else."""
        subtopology, separator, partition = text.partition("_")
        if separator and text.isascii() and subtopology.isdigit() and partition.isdigit() and len(text) <= 21:
            task_id = cls(int(subtopology), int(partition))
            if str(task_id) == text:
                return task_id
        raise ValueError(f"not a task id: {text[:50]!r}; expected <sub-topology>_<partition>, for example 0_3")
