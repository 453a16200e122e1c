"""What tasks write to repartition topics: handed to tasks of the same thread in memory, or written to the topic.

The topic is the truth: its committed offset is the only position behind a repartition. There are two shortcuts:

1. In-process hand-over. If one thread runs all tasks that write to a repartition topic and all tasks that read it, and the
   readers have read the topic to its end, records go from task to task in memory, within the same transaction. A record that a
   reader has not processed at the commit is written to the topic in that transaction, and is read from there later.
2. Blocks. Otherwise the records for one partition are written as one Kafka record (`spark/record_block.py`), unless
   `repartition.format = records`.

Before a count only the number of records of each key and their latest timestamp are sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.batches.record_batch import ProducedBatch, RawBatch, RecordOrBatch
from penstock.errors import SerializationError
from penstock.hashing import default_partitions
from penstock.ids import TaskId, TopicPartition
from penstock.record import Headers, ProducedRecord
from penstock.spark.plan import Plan
from penstock.spark.record_block import BLOCK_HEADER, RecordBlock, block_of, is_block


@dataclass
class Routed:
    """What became of the outputs of some tasks: blocks for tasks of this thread, and what is left to be written."""

    handed: dict[TopicPartition, RecordBlock] = field(default_factory=dict)
    written: dict[TaskId, list[RecordOrBatch]] = field(default_factory=dict)


class Repartitions:
    """Routes the outputs of one thread's tasks. `format` is `repartition.format`, `largest` the most bytes of a Kafka record."""

    def __init__(self, plan: Plan, format: str, largest: int) -> None:
        self._plan = plan
        self._as_blocks = format == "blocks"
        self._largest = largest
        self._tasks_of = {
            topic: frozenset(
                TaskId(s.id, partition)
                for s in plan.subtopologies.values()
                if topic in s.sink_topics or topic in s.source_topics
                for partition in range(plan.task_count(s))
            )
            for topic in plan.repartition_topics
            if topic not in plan.cyclic_topics
        }
        self._ends: dict[TopicPartition, int] = {}
        """Where repartition partitions end, as far as this thread knows: behind the last record that it has found or written."""
        self._numbers: dict[TopicPartition, int] = {}
        self._in_memory: frozenset[str] = frozenset()
        self._without_key = 0

    def opened(self, ends: Mapping[TopicPartition, int]) -> None:
        """Tasks that read these partitions were opened; the topics ended there at that time."""
        self._ends.update(ends)

    def begin(self, running: Collection[TaskId], positions: Mapping[TopicPartition, int]) -> None:
        """Decide for the batch that begins which topics are handed over in memory; `positions` is how far each was read."""
        known = set(running)
        self._in_memory = frozenset(
            topic
            for topic, tasks in self._tasks_of.items()
            if tasks <= known and all(self._is_drained(partition, positions) for partition in self._partitions(topic))
        )

    def _is_drained(self, partition: TopicPartition, positions: Mapping[TopicPartition, int]) -> bool:
        return partition in self._ends and positions.get(partition, -1) >= self._ends[partition]

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in range(self._plan.partitions[topic])]

    def route(self, outputs: Mapping[TaskId, Sequence[RecordOrBatch]]) -> Routed:
        """Sort what tasks wrote: records of repartition topics become blocks, everything else is written as it is."""
        routed, blocks, writers = Routed(), dict[str, list[list[RecordBlock]]](), dict[str, TaskId]()
        for task, items in outputs.items():
            written = routed.written[task] = []
            own: dict[str, list[RecordBlock]] = {}
            for topic, run in _runs(items):
                if topic in self._plan.repartition_topics:
                    own.setdefault(topic, []).append(_block(run))
                    writers[topic] = task
                else:
                    written += run
            for topic, parts in own.items():
                blocks.setdefault(topic, []).append(parts)
        for topic, written_to_it in blocks.items():
            for partition, block in self._by_partition(topic, written_to_it):
                if topic in self._in_memory:
                    routed.handed[partition] = block
                else:
                    routed.written[writers[topic]] += self._written(partition, block)
        return routed

    def _written(self, partition: TopicPartition, block: RecordBlock) -> Sequence[RecordOrBatch]:
        """A block as it is written to its topic. The partition is given, so that the producer tells where the topic ends."""
        if self._as_blocks:
            return block.records_for(partition, self._largest)
        headers = None if block.headers is None else [_without_block_header(some) for some in block.headers]
        columns = block.keys.to_pylist(), block.values.to_pylist(), block.timestamps.tolist()
        return [ProducedBatch(*partition, *columns, headers)]

    def _by_partition(self, topic: str, written: Sequence[Sequence[RecordBlock]]) -> Iterable[tuple[TopicPartition, RecordBlock]]:
        """Sort the rows of a topic by partition. What one task wrote stays in its order; tasks are merged by timestamp."""
        free, chosen, found = list[RecordBlock](), dict[int, list[RecordBlock]](), dict[int, list[RecordBlock]]()
        for parts in written:
            placed: dict[int | None, list[RecordBlock]] = {}
            for part in parts:
                placed.setdefault(part.partition if isinstance(part, _Placed) else None, []).append(part)
            for number, some in placed.items():
                (free if number is None else chosen.setdefault(number, [])).append(RecordBlock.concat(some))
        if free:
            merged = RecordBlock.merged(free)
            if topic in self._plan.counted:
                merged = _counted(merged)
            for number, block in merged.by_partition(self._targets(merged.keys, self._plan.partitions[topic])):
                found.setdefault(number, []).append(block)
        for number, blocks in chosen.items():
            merged = RecordBlock.merged(blocks)
            found.setdefault(number, []).append(_counted(merged) if topic in self._plan.counted else merged)
        for number, blocks in found.items():
            yield TopicPartition(topic, number), RecordBlock.merged(blocks)

    def _targets(self, keys: pa.Array, partitions: int) -> np.ndarray:
        targets = default_partitions(keys, partitions).astype(np.int64)
        without = np.flatnonzero(targets < 0)
        if len(without):  # a record without a key may go anywhere
            targets[without] = (np.arange(len(without)) + self._without_key) % partitions
            self._without_key += len(without)
        return targets

    def number(self, partition: TopicPartition, count: int, position: int) -> range:
        """Offsets for records that are handed over: they have none in the topic, but are told apart by them."""
        start = max(position, self._numbers.get(partition, 0))
        self._numbers[partition] = start + count
        return range(start, start + count)

    def write_back(self, left: RawBatch) -> Sequence[RecordOrBatch]:
        """Records that were handed over and not processed before the commit, to be written to the topic."""
        keys, values = pa.array(left.keys, pa.binary()), pa.array(left.values, pa.binary())
        block = RecordBlock(keys, values, np.array(left.timestamps, np.int64), left.headers)
        return self._written(TopicPartition(left.topic, left.partition), block)

    def wrote(self, ends: Mapping[TopicPartition, int]) -> None:
        """A commit has written up to these offsets of repartition partitions."""
        self._ends.update({partition: max(end, self._ends.get(partition, 0)) for partition, end in ends.items()})


class _Placed(RecordBlock):
    """A block whose partition the sink has chosen."""

    __slots__ = ("partition",)
    partition: int


def _runs(items: Iterable[RecordOrBatch]) -> Iterable[tuple[str, list[RecordOrBatch]]]:
    """Outputs of one topic and partition that follow each other; columns are a run of their own."""
    run: list[RecordOrBatch] = []
    for item in items:
        first = run[0] if run else item
        is_alone = isinstance(item, ProducedBatch) or isinstance(first, ProducedBatch)
        if run and (is_alone or (first.topic, first.partition) != (item.topic, item.partition)):
            yield run[0].topic, run
            run = []
        run.append(item)
    if run:
        yield run[0].topic, run


def _block(run: Sequence[RecordOrBatch]) -> RecordBlock:
    first = run[0]
    if isinstance(first, ProducedBatch):
        block = RecordBlock.of_columns(first)
    else:
        block = RecordBlock.of_records([record for record in run if isinstance(record, ProducedRecord)])
    if first.partition is None:
        return block
    placed = _Placed(block.keys, block.values, block.timestamps, block.headers)
    placed.partition = first.partition
    return placed


def _counted(block: RecordBlock) -> RecordBlock:
    """One row for each key, in the order of their last records; rows without a key or value stay as they are."""
    if block.keys.null_count or block.values.null_count:
        weights = np.ones(len(block), np.int64)
        return RecordBlock(block.keys, block.values, block.timestamps, block.headers, weights)
    encoded = block.keys.dictionary_encode()
    codes, distinct = encoded.indices.to_numpy(), len(encoded.dictionary)
    last = np.zeros(distinct, np.int64)
    last[codes] = np.arange(len(block))  # of several rows with a key the last one stays
    latest = np.full(distinct, -1, np.int64)
    np.maximum.at(latest, codes, block.timestamps)
    order = np.argsort(last)
    rows = block.take(last[order])
    nothing = pa.array([b""] * distinct, pa.binary())
    return RecordBlock(rows.keys, nothing, latest[order], rows.headers, np.bincount(codes, minlength=distinct)[order])


def _without_block_header(headers: Headers) -> Headers:
    """The same headers without the one that marks blocks: a user's record may carry that name."""
    return tuple((name, value) for name, value in headers if name != BLOCK_HEADER) if is_block(headers) else headers


def expand(raw: RawBatch, takes_counts: bool) -> list[tuple[RawBatch | RecordBlock, int]]:
    """Split what was read of a repartition partition into plain rows and blocks, each with the offset of its last Kafka record.

    A record that is marked as a block and cannot be read as one is a plain record: an application in Java passes headers on.
    So is a block with weights, unless the reader of the topic takes counts.
    """
    if raw.headers is None or not any(map(is_block, raw.headers)):
        return [(raw, raw.offsets[-1])] if len(raw) else []
    found: list[tuple[RawBatch | RecordBlock, int]] = []
    start = 0
    for row, headers in enumerate(raw.headers):
        if not is_block(headers):
            continue
        try:
            block = block_of(raw.values[row], headers)
        except SerializationError:
            continue
        if block.weights is not None and not takes_counts:
            continue
        if row > start:
            found.append((raw.rows(start, row), raw.offsets[row - 1]))
        found.append((block, raw.offsets[row]))
        start = row + 1
    if start < len(raw):
        found.append((raw.rows(start, len(raw)), raw.offsets[-1]))
    return found
