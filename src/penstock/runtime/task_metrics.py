"""What a task counts, under Kafka Streams' names.

Counts are taken once per batch where they can be. What has to look at every record (lateness, latencies) is only put in its
way at recording level DEBUG; Kafka Streams measures end-to-end latency at INFO already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.batches.late_column import BytesColumn
from penstock.batches.record_batch import ProducedBatch, RawBatch, RecordOrBatch
from penstock.clock import Clock
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import (
    PROCESSOR_NODE_GROUP,
    TASK_GROUP,
    TOPIC_GROUP,
    Metrics,
    RecordingLevel,
    Sensor,
    measure_avg,
    measure_max,
    measure_min,
    measure_total,
    measure_total_rate,
)
from penstock.record import ProducedRecord, RawRecord, Record

if TYPE_CHECKING:
    from penstock.runtime.nodes import Node

# What Kafka Streams adds for timestamp, offset and partition when it counts the bytes of a record.
_CONSUMED_OVERHEAD = 8 + 8 + 4
_PRODUCED_OVERHEAD = 8 + 4


class TaskMetrics:
    """The sensors of one task."""

    def __init__(self, registry: Metrics, task_id: TaskId) -> None:
        self.registry = registry
        self._task_id = task_id
        self._prefix = f"task.{task_id}"
        self._tags = {"thread-id": threading.current_thread().name, "task-id": str(task_id)}
        self._topics: dict[tuple[str, str, str], tuple[Sensor, Sensor]] = {}
        self.dropped_records = self._counter("dropped-records", RecordingLevel.INFO, "dropped records")
        self.process = self._counter("process", RecordingLevel.DEBUG, "processed records")
        self._punctuate = self._sensor("punctuate", RecordingLevel.DEBUG)
        registry.add_rate_and_total(self._punctuate, TASK_GROUP, self._tags, "punctuate", "calls to punctuate")
        registry.add_avg_and_max(self._punctuate, TASK_GROUP, self._tags, "punctuate-latency", "latency of calls to punctuate")
        self.punctuations, self.punctuation_seconds = 0, 0.0
        self.process_seconds, self.process_ratio = 0.0, 0.0
        self._process_latency = self._sensor("process-latency", RecordingLevel.DEBUG)
        registry.add_avg_and_max(self._process_latency, TASK_GROUP, self._tags, "process-latency", "latency of calls to process")
        self.restore = self._counter("restore", RecordingLevel.DEBUG, "restored records")
        lateness = self._sensor("record-lateness", RecordingLevel.DEBUG)
        registry.add_avg_and_max(lateness, TASK_GROUP, self._tags, "record-lateness", "observed lateness of records")
        self.record_lateness: Callable[[int], None] | None = lateness.record if lateness.enabled else None
        enforced = self._counter("enforced-processing", RecordingLevel.DEBUG, "occurrences of enforced processing")
        self.enforced_processing: Callable[[], None] | None = enforced.record if enforced.enabled else None

    def punctuated(self, seconds: float) -> None:
        """A punctuator has run."""
        self.punctuations += 1
        self.punctuation_seconds += seconds
        self._punctuate.record(seconds * 1000)

    def processed(self, records: int, seconds: float) -> None:
        """So many records took so long together; each counts with its part of it."""
        self.process_seconds += seconds
        if records:
            self._process_latency.record(seconds * 1000 / records)

    def gauge(self, name: str, level: RecordingLevel, description: str, read: Callable[[], Any]) -> None:
        """A metric of the task whose value is asked for when it is read."""
        if self.registry.should_record(level):
            self.registry.add_gauge(self.registry.metric_name(name, TASK_GROUP, description, self._tags), read)

    def consumed(
        self, partition: TopicPartition, source: str, records: Sequence[RawRecord] | RawBatch, stand_for: int | None = None
    ) -> int:
        """Count records of an input partition and return their bytes.

        Before a count a row may stand for several records, of which only one has bytes.
        """
        if not len(records):
            return 0
        count, size = self._topic(partition.topic, source, "consumed")
        count.record(len(records) if stand_for is None else stand_for)
        if isinstance(records, RawBatch):
            consumed = _columns_size(records, _CONSUMED_OVERHEAD)
        else:
            consumed = sum(map(_consumed_size, records))
        size.record(consumed)
        return consumed

    def produced(self, records: Iterable[RecordOrBatch]) -> None:
        """Count outputs, by topic."""
        by_topic: dict[str, list[ProducedRecord]] = {}
        for record in records:
            if isinstance(record, ProducedBatch):
                count, size = self._topic(record.topic, "", "produced")
                count.record(len(record))
                size.record(_columns_size(record, _PRODUCED_OVERHEAD))
                continue
            by_topic.setdefault(record.topic, []).append(record)
        for topic, written in by_topic.items():
            count, size = self._topic(topic, "", "produced")
            count.record(len(written))
            size.record(sum(map(_produced_size, written)))

    def watch_node(self, node: Node, clock: Clock, is_source: bool) -> None:
        """At DEBUG, measure how old the records are that a source or the last node of a way gets."""
        sensor = self._sensor(f"node.{node.name}.record-e2e-latency", RecordingLevel.DEBUG)
        if not sensor.enabled or not (is_source or node.is_terminal):
            return
        tags = {**self._tags, "processor-node-id": node.name}
        for suffix, measure in (("avg", measure_avg), ("min", measure_min), ("max", measure_max)):
            name = self.registry.metric_name(
                f"record-e2e-latency-{suffix}", PROCESSOR_NODE_GROUP, "The age of records at this node", tags
            )
            self.registry.add(sensor, name, measure)
        if is_source:
            calls = self._sensor(f"node.{node.name}.process", RecordingLevel.DEBUG)
            self.registry.add_rate_and_total(calls, PROCESSOR_NODE_GROUP, tags, "process", "calls to process")
            node.run = _counted(node.run, calls.record)
        node.run = _watched(node.run, sensor.record, clock.now_ms)

    def close(self) -> None:
        """Take the task's metrics out of the registry."""
        self.registry.remove_with_tags(self._tags)

    def _sensor(self, name: str, level: RecordingLevel) -> Sensor:
        return self.registry.sensor(f"{self._tags['thread-id']}.{self._prefix}.{name}", level)

    def _counter(self, name: str, level: RecordingLevel, what: str) -> Sensor:
        sensor = self._sensor(name, level)
        rate = self.registry.metric_name(f"{name}-rate", TASK_GROUP, f"The average number of {what} per second", self._tags)
        total = self.registry.metric_name(f"{name}-total", TASK_GROUP, f"The total number of {what}", self._tags)
        self.registry.add(sensor, rate, measure_total_rate)
        self.registry.add(sensor, total, measure_total)
        return sensor

    def _topic(self, topic: str, node: str, direction: str) -> tuple[Sensor, Sensor]:
        found = self._topics.get((topic, node, direction))
        if found is None:
            tags = {**self._tags, "processor-node-id": node, "topic": topic}
            prefix = f"topic.{topic}.{node}"
            count = self._sensor(f"{prefix}.records-{direction}", RecordingLevel.INFO)
            size = self._sensor(f"{prefix}.bytes-{direction}", RecordingLevel.INFO)
            for sensor, what in ((count, "records"), (size, "bytes")):
                text = f"The total number of {what} {direction}"
                name = self.registry.metric_name(f"{what}-{direction}-total", TOPIC_GROUP, text, tags)
                self.registry.add(sensor, name, measure_total)
            found = self._topics[topic, node, direction] = (count, size)
        return found


def _counted(run: Any, count: Callable[[], None]) -> Callable[[Record[Any, Any]], None]:
    def counted(record: Record[Any, Any]) -> None:
        count()
        run(record)

    return counted


def _watched(run: Any, record_latency: Callable[[int], None], now_ms: Callable[[], int]) -> Callable[[Record[Any, Any]], None]:
    def watched(record: Record[Any, Any]) -> None:
        run(record)
        record_latency(now_ms() - record.timestamp)

    return watched


def _columns_size(batch: RawBatch | ProducedBatch, overhead: int) -> int:
    size = len(batch) * (overhead + len(batch.topic))
    size += _bytes_of(batch.keys) + _bytes_of(batch.values)
    for headers in batch.headers or ():
        size += sum(len(name) + len(value or b"") for name, value in headers)
    return size


def _bytes_of(column: Sequence[bytes | None]) -> int:
    if isinstance(column, BytesColumn):
        return column.size
    try:
        return sum(map(len, column))  # type: ignore[arg-type]  # nearly always there is no None
    except TypeError:
        return sum(map(len, filter(None, column)))


def _consumed_size(record: RawRecord) -> int:
    size = _CONSUMED_OVERHEAD + len(record.topic) + len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers) if record.headers else size


def _produced_size(record: ProducedRecord) -> int:
    size = _PRODUCED_OVERHEAD + len(record.topic) + len(record.key or b"") + len(record.value or b"")
    return size + sum(len(name) + len(value or b"") for name, value in record.headers) if record.headers else size
