"""What an earlier release left behind: tasks behind a repartition that have consumed each source up to positions of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock import TaskId, TopicPartition
from penstock.batches.record_batch import RawBatch, records_of
from penstock.record import ProducedRecord, RawRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata, with_own_offset
from penstock.spark.vectors import Vector
from penstock.spark.worker.vector_upgrade import shuffle_target
from tests.unit.spark.crash_cases import PARTITIONS, Case
from tests.unit.spark.crash_world import Brokers, Form, Instance, as_committed

# Where the task of a target partition is in a source partition: an offset, and how many records made of it the task has had.
Positions = Callable[[int, int], tuple[int, int]]


def LEVEL(target: int, source: int) -> tuple[int, int]:
    return 2, 0


def UNEVEN(target: int, source: int) -> tuple[int, int]:
    return 1 + 2 * (target ^ source), 0


def MIDST(target: int, source: int) -> tuple[int, int]:
    return 2 * target, 1


def commit_vectors(case: Case, brokers: Brokers, folder: Path, positions: Positions) -> None:
    """Process the first records of each source as an earlier release did, through the shuffle, and commit vectors.

    1. Run each source record through its sub-topology by itself, to know what was made of it.
    2. Give each task behind the repartition what it has had; write its results and those of the records it had.
    3. Commit its vector, and for each source the offset of the task furthest behind.
    """
    old = Instance(case.topology(), brokers, folder, "old", case.config, Form.MEMORY)
    old.open()
    [thread] = old.threads.values()
    assert thread.restore()
    tasks, plan = thread.tasks, old.plan
    [reader] = [s for s in plan.subtopologies.values() if s.repartition_source_topics]
    [writer] = plan.feeding(reader)
    [topic] = plan.repartitions_of(writer)
    [source_topic] = writer.source_topics
    sources = [TopicPartition(source_topic, p) for p in range(PARTITIONS)]
    at = {
        target: {source: _in_range(positions(target, source.partition), brokers, source) for source in sources}
        for target in range(PARTITIONS)
    }
    numbers, offsets = dict.fromkeys(range(PARTITIONS), 0), dict[TopicPartition, OffsetAndMetadata]()
    begun: dict[int, dict[TopicPartition, int]] = {target: {} for target in range(PARTITIONS)}
    for source in sources:
        for raw in brokers.committed_records(source):
            made = _made_of(old, TaskId(writer.id, source.partition), source, raw)
            for record in made:
                if record.topic != topic:
                    if raw.offset < at[source.partition % PARTITIONS][source][0]:
                        _write(brokers, record)
                    continue
                target = record.partition
                if target is None:
                    target = shuffle_target(record.key, raw.offset, PARTITIONS)
                position, some = at[target][source]
                if raw.offset == position and begun[target].get(source, 0) < some:
                    begun[target][source] = begun[target].get(source, 0) + 1
                elif raw.offset >= position:
                    continue
                _give(old, TaskId(reader.id, target), TopicPartition(topic, target), record, numbers[target])
                numbers[target] += 1
    for target in range(PARTITIONS):
        task = TaskId(reader.id, target)
        inputs = plan.inputs(task)
        for other in inputs:
            if other.topic != topic:
                first = brokers.committed_records(other)[:3]
                tasks.running[task].task.add_records(other, RawBatch.of(*other, first), 3)
        tasks.process(task, dict.fromkeys(inputs, 0))
        commit = tasks.prepare_commit(task)
        for record in records_of((*commit.outputs, *commit.changelogs)):
            _write(brokers, record)
        offsets |= {p: some for p, some in commit.offsets.items() if p.topic != topic}
        own = TopicPartition(topic, target)
        times = commit.offsets[own].metadata if own in commit.offsets else ""
        vector = Vector(numbers[target], {source: at[target][source][0] for source in sources}, begun[target])
        offsets[own] = vector.committed(times, sources)
    for source in sources:
        offsets[source] = with_own_offset(OffsetAndMetadata(min(at[target][source][0] for target in range(PARTITIONS))))
    old.die()
    brokers.offsets = {p: as_committed(some) for p, some in offsets.items()}


def _in_range(position: tuple[int, int], brokers: Brokers, source: TopicPartition) -> tuple[int, int]:
    assert position[0] < len(brokers.logs[source])
    return position


def _made_of(old: Instance, task: TaskId, source: TopicPartition, raw: RawRecord) -> list[ProducedRecord]:
    """What a sub-topology makes of one record."""
    [thread] = old.threads.values()
    thread.tasks.running[task].task.add_records(source, RawBatch.of(*source, [raw]), raw.offset + 1)
    thread.tasks.process(task, {source: 0})
    commit = thread.tasks.prepare_commit(task)
    assert not commit.changelogs
    thread.tasks.running[task].task.post_commit({})
    return list(records_of(commit.outputs))


def _give(old: Instance, task: TaskId, partition: TopicPartition, record: ProducedRecord, number: int) -> None:
    """Queue a record for a task behind the repartition."""
    [thread] = old.threads.values()
    raw = RawRecord(*partition, number, record.timestamp, record.key, record.value, record.headers)
    thread.tasks.running[task].task.add_records(partition, RawBatch.of(*partition, [raw]), number + 1)


def _write(brokers: Brokers, record: ProducedRecord) -> None:
    topic, partition, key, *rest = record
    if partition is None:
        partition = 0 if key is None else shuffle_target(key, 0, brokers.partitions[topic])
    brokers.append(topic, partition, key, *rest)
