"""A sub-topology before the shuffle: reads its ranges, runs its stateless operators, sorts what comes out by target.

Whatever else it writes (sinks of its own, dead letters) rides along to one target task, chosen by the source partition, and is
written in that task's transaction: the vector that guards the task's input guards it too, so it is written exactly once.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.hashing import default_partition
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import RangeFetcher
from penstock.record import ProducedRecord
from penstock.runtime.collector import RecordCollector
from penstock.runtime.task import StreamTask
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import UpstreamWork
from penstock.spark.plan import Plan

_SIDE_OUTPUT = "penstock.side.output"


class TracingCollector(RecordCollector):
    """Remembers for each output the input record it was made from."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.origins: list[tuple[TopicPartition, int]] = []
        self.current: Any = None

    def send(self, *arguments: Any, **named: Any) -> None:
        """Keep a record, and where it came from."""
        super().send(*arguments, **named)
        self._trace()

    def send_raw(self, record: ProducedRecord) -> None:
        """Keep a dead letter, and where it came from: a record that cannot be deserialized is met before its turn."""
        super().send_raw(record)
        named = dict(record.headers)
        topic, partition, offset = (named.get(f"__streams.errors.{part}") for part in ("topic", "partition", "offset"))
        if topic and partition and offset:
            self.origins.append((TopicPartition(topic.decode(), int(partition)), int(offset)))
        self._trace()

    def _trace(self) -> None:
        missing = len(self._outputs) - len(self.origins)
        if missing > 0:
            context = self.current.record_context
            self.origins += [(TopicPartition(context.topic, context.partition), context.offset)] * missing

    def drain_traced(self) -> tuple[list[ProducedRecord], list[tuple[TopicPartition, int]]]:
        """Outputs since the last call, each with its origin."""
        outputs, _ = self.drain()
        origins, self.origins = self.origins, []
        return outputs, origins


def run_upstream(
    plan: Plan, work: UpstreamWork, task: StreamTask, fetcher: RangeFetcher
) -> tuple[dict[TopicPartition, ShuffledBatch], int]:
    """The records for each repartition partition, and how many input records they were made of."""
    collector = task.collector
    assert isinstance(collector, TracingCollector)
    collector.current = task.context
    for partition, records in fetcher.fetch(work.ranges).items():
        task.add_records(partition, records)
    consumed = 0
    while task.has_records_queued:
        consumed += task.process_all()
    outputs, origins = collector.drain_traced()
    return sort_by_target(plan, work, outputs, origins), consumed


def sort_by_target(
    plan: Plan, work: UpstreamWork, outputs: Sequence[ProducedRecord], origins: Sequence[tuple[TopicPartition, int]]
) -> dict[TopicPartition, ShuffledBatch]:
    """Each output to the partition it belongs to, except what that partition has consumed before."""
    sources = sources_of(plan, work.subtopology)
    index_of = {source: index for index, source in enumerate(sources)}
    targets = [topic for topic, upstream in plan.shuffled.items() if upstream == work.subtopology]
    side = TopicPartition(targets[0], work.partition % plan.partitions[targets[0]])
    shuffled = frozenset(targets)
    found: dict[TopicPartition, ShuffledBatch] = {}
    for output, (source, offset) in zip(outputs, origins):
        topic, partition, key, value, timestamp, headers = output
        if topic not in shuffled:
            target, key, value, headers = side, None, pickle.dumps(output), ((_SIDE_OUTPUT, None),)
        else:
            if partition is None:
                count = plan.partitions[topic]
                # A record without a key may go anywhere, but on a re-read to the same place again.
                partition = offset % count if key is None else default_partition(key, count)
            target = TopicPartition(topic, partition)
        if offset < work.skip.get(target, {}).get(source, 0):
            continue
        batch = found.get(target)
        if batch is None:
            batch = found[target] = ShuffledBatch()
        batch.append(key, value, timestamp, headers, index_of[source], offset)
    return found


def take_side_outputs(batch: ShuffledBatch) -> tuple[ShuffledBatch, list[ProducedRecord]]:
    """Part what a task is to process from what it is only to write."""
    if not any(headers and headers[0][0] == _SIDE_OUTPUT for headers in batch.headers):
        return batch, []
    records, outputs = ShuffledBatch(), []
    for row in zip(batch.keys, batch.values, batch.timestamps, batch.headers, batch.sources, batch.offsets):
        if row[3] and row[3][0][0] == _SIDE_OUTPUT:
            outputs.append(pickle.loads(row[1] or b""))
        else:
            records.append(*row)
    return records, outputs


def sources_of(plan: Plan, subtopology: int) -> list[TopicPartition]:
    """The source partitions of a sub-topology before a shuffle, in the order of its vectors."""
    topics = sorted(plan.subtopologies[subtopology].source_topics)
    return [TopicPartition(topic, partition) for topic in topics for partition in range(plan.partitions[topic])]


def upstream_inputs(plan: Plan, task_id: TaskId) -> Mapping[str, int]:
    """The topics a task before the shuffle reads its partition of."""
    topics = plan.subtopologies[task_id.subtopology].source_topics
    return {topic: task_id.partition for topic in topics if task_id.partition < plan.partitions[topic]}
