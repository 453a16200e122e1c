"""A sub-topology before the shuffle: reads its ranges, runs its stateless operators, sorts what comes out by target.

Whatever else it writes (sinks of its own, dead letters) rides along to one target task, chosen by the source partition, and is
written in that task's transaction: the vector that guards the task's input guards it too, so it is written exactly once.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.columns import Columns, Produced, ProducedColumns, RawColumns
from penstock.dead_letters import ErrorHandlerContext
from penstock.hashing import default_partition
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import RangeFetcher
from penstock.record import Headers, ProducedRecord
from penstock.runtime.collector import RecordCollector
from penstock.runtime.task import StreamTask
from penstock.serde_codecs import serialize_bytes, serialize_string
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import UpstreamWork
from penstock.spark.plan import Plan
from penstock.spark.sorting import counted_columns, sorted_columns
from penstock.text_columns import TextColumn
from penstock.topology.specs import Serializer
from penstock.windowed_serdes import WindowedStreamPartitioner

_SIDE_OUTPUT = "penstock.side.output"


def _is_text(values: Sequence[Any]) -> bool:
    return isinstance(values, TextColumn) or set(map(type, values)) == {str}


class TracingCollector(RecordCollector):
    """Remembers for each output the input record it was made from."""

    def __init__(self, *arguments: Any, counted: frozenset[str] = frozenset()) -> None:
        super().__init__(*arguments)
        self._counted = counted
        self.origins: list[tuple[TopicPartition, int] | None] = []
        self.current: Any = None

    def send(self, *arguments: Any, **named: Any) -> None:
        """Keep a record, and where it came from."""
        super().send(*arguments, **named)
        self._trace()

    def send_columns(
        self,
        topic: str,
        columns: Columns,
        key_serializer: Serializer,
        value_serializer: Serializer,
        partitioner: WindowedStreamPartitioner | None = None,
    ) -> bool:
        """Keep columns, which know where they came from; of what is only counted the values are not needed."""
        if topic in self._counted and value_serializer is serialize_string and _is_text(columns.values):
            columns, value_serializer = columns.with_values([b""] * len(columns)), serialize_bytes
        before = len(self._outputs)
        if not super().send_columns(topic, columns, key_serializer, value_serializer, partitioner):
            return False
        self.origins += [None] * (len(self._outputs) - before)
        return True

    def _produced(self, topic: str, columns: Columns, keys: Any, values: Any) -> ProducedColumns:
        produced = super()._produced(topic, columns, keys, values)
        produced.origin, produced.offsets = columns.origin, columns.offsets()
        return produced

    def send_raw(self, record: ProducedRecord, error_context: ErrorHandlerContext | None = None) -> None:
        """Keep a dead letter, and where it came from: a record that cannot be deserialized is met before its turn."""
        super().send_raw(record, error_context)
        if error_context is not None and error_context.topic is not None:
            self.origins.append((TopicPartition(error_context.topic, error_context.partition), error_context.offset))
        self._trace()

    def _trace(self) -> None:
        missing = len(self._outputs) - len(self.origins)
        if missing > 0:
            context = self.current.record_context
            self.origins += [(TopicPartition(context.topic, context.partition), context.offset)] * missing

    def drain_traced(self) -> tuple[list[Produced], list[tuple[TopicPartition, int] | None]]:
        """Outputs since the last call, each record with its origin."""
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


Row = tuple["bytes | None", "bytes | None", int, Headers, int, int]


def sort_by_target(
    plan: Plan, work: UpstreamWork, outputs: Sequence[Produced], origins: Sequence[tuple[TopicPartition, int] | None]
) -> dict[TopicPartition, ShuffledBatch]:
    """Each output to the partition it belongs to, except what that partition has consumed before."""
    sources = sources_of(plan, work.subtopology)
    index_of = {source: index for index, source in enumerate(sources)}
    targets = [topic for topic, upstream in plan.shuffled.items() if upstream == work.subtopology]
    side = TopicPartition(targets[0], work.partition % plan.partitions[targets[0]])
    found = _Sorted(plan.counted)
    for output, origin in zip(outputs, origins):
        if isinstance(output, ProducedColumns):
            assert isinstance(output.origin, RawColumns)  # nothing with a store runs before a shuffle
            assert output.offsets is not None
            source = TopicPartition(output.origin.topic, output.origin.partition)
            if output.topic in targets:
                skip = {t.partition: some[source] for t, some in work.skip.items() if t.topic == output.topic and source in some}
                sort = counted_columns if output.topic in plan.counted else sorted_columns
                for partition, batch in sort(output, index_of[source], plan.partitions[output.topic], skip):
                    found.add_batch(TopicPartition(output.topic, partition), batch)
                continue
            rows = [(record, (source, offset)) for record, offset in zip(output, output.offsets)]
        else:
            assert origin is not None
            rows = [(output, origin)]
        for record, (source, offset) in rows:
            target, row = _addressed(record, offset, targets, side, plan)
            if offset >= work.skip.get(target, {}).get(source, 0):
                found.add_row(target, (*row, index_of[source], offset))
    return found.batches()


def _addressed(
    output: ProducedRecord, offset: int, targets: Sequence[str], side: TopicPartition, plan: Plan
) -> tuple[TopicPartition, tuple[bytes | None, bytes | None, int, Headers]]:
    topic, partition, key, value, timestamp, headers = output
    if topic not in targets:
        return side, (None, pickle.dumps(output), timestamp, ((_SIDE_OUTPUT, None),))
    if partition is None:
        count = plan.partitions[topic]
        # A record without a key may go anywhere, but on a re-read to the same place again.
        partition = offset % count if key is None else default_partition(key, count)
    return TopicPartition(topic, partition), (key, value, timestamp, headers)


class _Sorted:
    """What goes to each target, in the order in which it came, whether as rows or as batches."""

    def __init__(self, counted: frozenset[str]) -> None:
        self._counted = counted
        self._parts: dict[TopicPartition, list[ShuffledBatch | list[Row]]] = {}

    def add_row(self, target: TopicPartition, row: Row) -> None:
        parts = self._parts.setdefault(target, [])
        if not parts or isinstance(parts[-1], ShuffledBatch):
            parts.append([])
        parts[-1].append(row)  # type: ignore[union-attr]

    def add_batch(self, target: TopicPartition, batch: ShuffledBatch) -> None:
        self._parts.setdefault(target, []).append(batch)

    def batches(self) -> dict[TopicPartition, ShuffledBatch]:
        return {
            target: ShuffledBatch.concat(
                [
                    part if isinstance(part, ShuffledBatch) else ShuffledBatch.of_rows(part, target.topic in self._counted)
                    for part in parts
                ]
            )
            for target, parts in self._parts.items()
        }


def take_side_outputs(batch: ShuffledBatch) -> tuple[ShuffledBatch, list[ProducedRecord]]:
    """Part what a task is to process from what it is only to write."""
    if batch.headers is None:
        return batch, []
    side = [bool(headers) and headers[0][0] == _SIDE_OUTPUT for headers in batch.headers]
    if not any(side):
        return batch, []
    outputs = [pickle.loads(batch.values[row].as_py()) for row, is_side in enumerate(side) if is_side]  # noqa: S301 - unsafe: to be a column
    return batch.take(np.flatnonzero(~np.array(side))), outputs


def sources_of(plan: Plan, subtopology: int) -> list[TopicPartition]:
    """The source partitions of a sub-topology before a shuffle, in the order of its vectors."""
    topics = sorted(plan.subtopologies[subtopology].source_topics)
    return [TopicPartition(topic, partition) for topic in topics for partition in range(plan.partitions[topic])]


def upstream_inputs(plan: Plan, task_id: TaskId) -> Mapping[str, int]:
    """The topics a task before the shuffle reads its partition of."""
    topics = plan.subtopologies[task_id.subtopology].source_topics
    return {topic: task_id.partition for topic in topics if task_id.partition < plan.partitions[topic]}
