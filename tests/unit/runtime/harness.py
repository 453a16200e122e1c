"""A StreamTask with all it needs, over topologies built by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.clock import ManualClock
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import Metrics
from penstock.processor import Processor
from penstock.record import RawRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.runtime.task import StreamTask, TaskCommit, TaskEnvironment
from penstock.runtime.task_metrics import TaskMetrics
from penstock.serdes.serde import Serdes
from penstock.state.cache import RecordCache
from penstock.topology.execution_plan import BatchThreshold
from penstock.topology.topology import Topology

STRING = Serdes.string()
LONG = Serdes.long()
TASK = TaskId(0, 1)


def config(**values: Any) -> StreamsConfig:
    given = {key.replace("_", "."): value for key, value in values.items()}
    defaults = {"application.id": "app", "bootstrap.servers": "x:1", "default.key.serde": STRING, "default.value.serde": STRING}
    return StreamsConfig.partial({**defaults, **given})


class Harness:
    """One task, and the log of its changelogs, which outlives it."""

    def __init__(self, topology: Topology, folder: Path, settings: StreamsConfig | None = None) -> None:
        self.topology = topology
        self.folder = folder
        self.config = settings or config()
        self.clock = ManualClock(1000)
        self.metrics = Metrics("DEBUG", clock=self.clock)
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.changelog: dict[TopicPartition, list[RawRecord]] = {}
        self.outputs: list[Any] = []
        self.topic_partitions: Mapping[str, int] = {}
        self.task: StreamTask

    def open(self) -> StreamTask:
        plan = self.topology.internal_topology_builder.rewrite_topology(self.config).build_topology()
        inputs = [TopicPartition(topic, TASK.partition) for topic in plan.source_topics]
        metrics = TaskMetrics(self.metrics, TASK)
        cache = RecordCache(self.config.total_cache_size)
        environment = TaskEnvironment(self.config, self.clock, metrics, cache, self.topic_partitions.get)
        self.task = StreamTask.create(TASK, plan, inputs, self.folder, environment)
        manager = self.task.state_manager
        self.task.initialize()
        for partition, offset in manager.changelog_offsets.items():
            if not manager.changelog_as_source(partition):
                manager.restore(partition, self.changelog.get(partition, [])[offset:])
        self.task.complete_restoration(self.committed)
        return self.task

    def add(self, topic: str, *records: tuple[Any, Any, int], first_offset: int = 0) -> None:
        raw = [
            RawRecord(topic, TASK.partition, first_offset + index, timestamp, _bytes(key), _bytes(value))
            for index, (key, value, timestamp) in enumerate(records)
        ]
        self.task.add_records(TopicPartition(topic, TASK.partition), raw)

    def process_in_batches(self) -> int:
        """Process all that waits as columns, however little it is; fails where a record goes by itself."""
        return process_in_batches(self.task)

    def commit(self) -> TaskCommit:
        commit = self.task.prepare_commit()
        self.outputs += commit.outputs
        written = {}
        for record in commit.changelogs:
            partition = TopicPartition(record.topic, record.partition or 0)
            log = self.changelog.setdefault(partition, [])
            log.append(
                RawRecord(record.topic, partition.partition, len(log), record.timestamp, record.key, record.value, record.headers)
            )
            written[partition] = len(log) - 1
        self.committed.update(commit.offsets)
        self.task.post_commit(written)
        return commit

    def reopen(self) -> StreamTask:
        self.task.suspend()
        self.task.close_clean()
        return self.open()


def set_threshold(task: StreamTask, rows: int) -> None:
    """Let an open task take columns from this number of records on."""
    task.execution_plan = replace(task.execution_plan, threshold=BatchThreshold(rows, 1))


def process_in_batches(task: StreamTask, until: float = math.inf) -> int:
    """Process all that waits as columns, however little it is; fails where a record goes by itself.

    With `until` in the past each call processes one part of it.
    """
    assert task.takes_batches, f"this task takes no columns: {task.execution_plan.why_not}"
    before = task.processed_in_batches
    set_threshold(task, 1)
    processed = task.process_all(until=until)
    while task.was_cut_short:
        processed += task.process_all(until=until)
    taken = task.processed_in_batches - before
    assert taken == processed, f"{processed - taken} of {processed} records were processed one by one"
    return processed


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def pairs(records: Iterable[Any]) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in records]


class Forwarder(Processor[Any, Any, Any, Any]):
    """Hands every record on."""

    def process(self, record: Any) -> None:
        self.context.forward(record)


def pipeline(*suppliers: Any, topics: tuple[str, ...] = ("in",)) -> Topology:
    """source -> processor-0 -> processor-1 ... -> sink to topic out."""
    topology = Topology().add_source("source", *topics)
    parent = "source"
    for index, supplier in enumerate(suppliers):
        topology.add_processor(f"processor-{index}", supplier, parent)
        parent = f"processor-{index}"
    return topology.add_sink("sink", "out", parent)
