"""A sub-topology before the shuffle: reads its ranges, runs its stateless operators, sorts what comes out by target.

Whatever else it writes (sinks of its own, dead letters) rides along to one target task, chosen by the source partition, in a
column of its own, and is written in that task's transaction: in the one that takes the task's vector past the record it was
made of, so it is written exactly once (`spark/worker/shuffle_input.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from penstock.columns.columns import Columns, ProducedColumns, RawColumns, RecordOrColumns
from penstock.columns.text import TextColumn
from penstock.dead_letters import ErrorHandlerContext
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import RangeFetcher
from penstock.kafka.follow import Taken
from penstock.partitioner import ColumnPartitioner
from penstock.record import Headers, ProducedRecord
from penstock.runtime.collector import RecordCollector
from penstock.runtime.sink_format import SinkFormat
from penstock.runtime.task import StreamTask
from penstock.serdes.codecs import serialize_bytes, serialize_string
from penstock.serdes.windowed import WindowedStreamPartitioner
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import UpstreamWork
from penstock.spark.plan import Plan
from penstock.spark.shuffle_target import shuffle_target
from penstock.spark.worker.shuffle_partitioning import counted_columns, side_columns, sorted_columns
from penstock.topology.specs import Serializer


def _is_text(values: Sequence[Any]) -> bool:
    return isinstance(values, TextColumn) or set(map(type, values)) == {str}


def _to_be_counted(columns: Columns, serializer: Serializer) -> tuple[Columns, Serializer]:
    """What a count has to know of the values: nothing of text, of others which there are. No serde makes one of None."""
    if serializer is serialize_string and _is_text(columns.values):
        return columns.with_values([b""] * len(columns)), serialize_bytes
    if None in columns.values:
        return columns, partial(_serialize_something, serializer)
    return columns, serializer


def _serialize_something(serializer: Serializer, topic: str, value: Any) -> bytes | None:
    return None if value is None else serializer(topic, value)


class TracingCollector(RecordCollector):
    """Remembers for each output the input record it was made from.

    Of the topics in `counted` the values are only counted where they are read: a record without one stays without, also where a
    serde of the user's writes something for None, and would read None from it again.
    """

    gathers = False

    def __init__(self, *arguments: Any, counted: frozenset[str] = frozenset()) -> None:
        super().__init__(*arguments)
        self._counted = counted
        self.origins: list[tuple[TopicPartition, int] | None] = []
        self.current: Any = None

    def send(self, topic: str, record: Any, sink: SinkFormat) -> None:
        """Keep a record, and where it came from."""
        if record.value is None and topic in self._counted:
            sink = sink._replace(value_serializer=serialize_bytes)
        super().send(topic, record, sink)
        self._trace()

    def send_columns(
        self,
        topic: str,
        columns: Columns,
        key_serializer: Serializer,
        value_serializer: Serializer,
        partitioner: WindowedStreamPartitioner | ColumnPartitioner | None = None,
    ) -> bool:
        """Keep columns, which know where they came from."""
        if topic in self._counted:
            columns, value_serializer = _to_be_counted(columns, value_serializer)
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

    def drain_traced(self) -> tuple[list[RecordOrColumns], list[tuple[TopicPartition, int] | None]]:
        """Outputs since the last call, each record with its origin."""
        outputs, _ = self.drain()
        origins, self.origins = self.origins, []
        return outputs, origins


def run_upstream(plan: Plan, work: UpstreamWork, task: StreamTask, fetcher: RangeFetcher | Taken, found: SortedByTarget) -> int:
    """Add the records for each repartition partition to what was found; returns how many input records they were made of."""
    collector = task.collector
    assert isinstance(collector, TracingCollector)
    collector.current = task.context
    for partition, records in fetcher.fetch(work.ranges).items():
        task.add_records(partition, records)
    consumed, started = 0, time.perf_counter()
    while task.has_records_queued:
        consumed += task.process_all()
    task.metrics.processed(consumed, time.perf_counter() - started)
    outputs, origins = collector.drain_traced()
    sort_by_target(plan, work, outputs, origins, found)
    return consumed


Row = tuple["bytes | None", "bytes | None", int, Headers, int, int]
Side = tuple["str | None", "int | None"]
_HERE: Side = (None, None)


def sort_by_target(
    plan: Plan,
    work: UpstreamWork,
    outputs: Sequence[RecordOrColumns],
    origins: Sequence[tuple[TopicPartition, int] | None],
    found: SortedByTarget,
) -> None:
    """Each output to the partition it belongs to, except what that partition has consumed before."""
    sources = sources_of(plan, work.subtopology)
    index_of = {source: index for index, source in enumerate(sources)}
    targets = [topic for topic, upstream in plan.shuffled.items() if upstream == work.subtopology]
    side = side_target(plan, work)
    for output, origin in zip(outputs, origins):
        if isinstance(output, ProducedColumns):
            assert isinstance(output.origin, RawColumns)  # nothing with a store runs before a shuffle
            assert output.offsets is not None
            source = TopicPartition(output.origin.topic, output.origin.partition)
            if output.topic not in targets:
                consumed = work.skip.get(side, {}).get(source, 0)
                found.add_batch(side, side_columns(output, index_of[source], consumed, side.topic in plan.counted))
                continue
            skip = {t.partition: some[source] for t, some in work.skip.items() if t.topic == output.topic and source in some}
            sort = counted_columns if output.topic in plan.counted else sorted_columns
            for partition, batch in sort(output, index_of[source], plan.partitions[output.topic], skip):
                found.add_batch(TopicPartition(output.topic, partition), batch)
        else:
            assert origin is not None
            source, offset = origin
            is_side = output.topic not in targets
            target = side if is_side else _target(output, offset, plan)
            if offset >= work.skip.get(target, {}).get(source, 0):
                row = (output.key, output.value, output.timestamp, output.headers, index_of[source], offset)
                found.add_row(target, row, (output.topic, output.partition) if is_side else _HERE)


def side_target(plan: Plan, work: UpstreamWork) -> TopicPartition:
    """Where all goes that a task before a shuffle has besides records for the tasks behind it: chosen by its partition."""
    topic = next(topic for topic, upstream in plan.shuffled.items() if upstream == work.subtopology)
    return TopicPartition(topic, work.partition % plan.partitions[topic])


def _target(output: ProducedRecord, offset: int, plan: Plan) -> TopicPartition:
    if output.partition is not None:
        return TopicPartition(output.topic, output.partition)
    return TopicPartition(output.topic, shuffle_target(output.key, offset, plan.partitions[output.topic]))


class SortedByTarget:
    """What goes to each target, in the order in which it came, whether as rows or as batches; from one source or from many."""

    def __init__(self, counted: frozenset[str]) -> None:
        self._counted = counted
        self._parts: dict[TopicPartition, list[ShuffledBatch | list[tuple[Row, Side]]]] = {}

    def add_row(self, target: TopicPartition, row: Row, side: Side) -> None:
        """One row; rows that follow each other become one batch."""
        parts = self._parts.setdefault(target, [])
        if not parts or isinstance(parts[-1], ShuffledBatch):
            parts.append([])
        parts[-1].append((row, side))  # type: ignore[union-attr]

    def add_batch(self, target: TopicPartition, batch: ShuffledBatch) -> None:
        """Rows that are a batch already."""
        if len(batch):
            self._parts.setdefault(target, []).append(batch)

    def batches(self) -> dict[TopicPartition, ShuffledBatch]:
        """A batch for each target that something goes to."""
        return {
            target: ShuffledBatch.concat(
                [part if isinstance(part, ShuffledBatch) else self._of_rows(target, part) for part in parts]
            )
            for target, parts in self._parts.items()
        }

    def _of_rows(self, target: TopicPartition, part: list[tuple[Row, Side]]) -> ShuffledBatch:
        rows, sides = zip(*part)
        ride = any(side is not _HERE for side in sides)
        return ShuffledBatch.of_rows(rows, target.topic in self._counted, sides if ride else None)


def sources_of(plan: Plan, subtopology: int) -> list[TopicPartition]:
    """The source partitions of a sub-topology before a shuffle, in the order of its vectors."""
    topics = sorted(plan.subtopologies[subtopology].source_topics)
    return [TopicPartition(topic, partition) for topic in topics for partition in range(plan.partitions[topic])]


def upstream_inputs(plan: Plan, task_id: TaskId) -> Mapping[str, int]:
    """The topics a task before the shuffle reads its partition of."""
    topics = plan.subtopologies[task_id.subtopology].source_topics
    return {topic: task_id.partition for topic in topics if task_id.partition < plan.partitions[topic]}
