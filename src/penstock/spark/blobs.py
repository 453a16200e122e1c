"""What the stage before a shuffle sends to a lane: blobs of bytes, each with a tag that tells what it is.

    R <2> length <4> partition topic …    records for a partition of a repartition topic, as a shuffled batch
    F …                                   what went through the topology before the shuffle
    C …                                   what a task before the shuffle has counted
    X …                                   the failure of the stage
    E <4> sub-topology <4> partition <4> blobs <8> checksum
                                          the end of what one task before the shuffle sends, and what that was

An executor that is lost while its blobs are read looks like their end to a Python worker. So each task before the shuffle says
how many it sent, and a lane that has not all of them does nothing.

With an executor its part of a shuffle is lost, and Spark runs the tasks again that had made it, for lanes that have not taken
theirs yet. Others may have committed what the first computation gave them, so the second has to give the same records. The
checksum is over all records that a task has sent, to whichever lane; the driver hears that of the first computation, and a lane
that meets another one does nothing: its tasks are read for anew.

Nothing of it is unpickled: records are Arrow, the rest is plain data (`wire.py`). The topic's name is filled up so that the batch
begins at a multiple of eight: Arrow reads it where it lies.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.dead_letters import DeadLetter
from penstock.errors import SerializationError, TaskMigratedError
from penstock.ids import TaskId, TopicPartition
from penstock.log_lines import LogLine
from penstock.runtime.flow import Flow
from penstock.runtime.task_metrics import TaskCounts
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import Failure
from penstock.spark.raised import Raised
from penstock.wire import Codec

_CODEC = Codec(Flow, DeadLetter, LogLine, Failure, Raised, TaskCounts, TaskId)
_T = TypeVar("_T")
_HEAD = struct.Struct(">cxHI")
_END = struct.Struct(">cIIIQ")


def batch_blob(target: TopicPartition, batch: ShuffledBatch) -> bytes:
    """Records for a partition."""
    topic = target.topic.encode()
    return batch.to_bytes(_HEAD.pack(b"R", len(topic), target.partition) + topic + bytes(-len(topic) % 8))


def flow_blob(flow: Flow) -> bytes:
    """What went through the topology before the shuffle."""
    return b"F" + _CODEC.encode(flow)


def counts_blob(counts: TaskCounts) -> bytes:
    """What a task before the shuffle has counted."""
    return b"C" + _CODEC.encode(counts)


def failure_blob(failure: Failure) -> bytes:
    """The failure of the stage."""
    return b"X" + _CODEC.encode(failure)


def end_blob(task: TaskId, sent: int, checksum: int) -> bytes:
    """What comes last of a task before the shuffle: how many blobs came before it for the same lane, and `checksum` of all."""
    return _END.pack(b"E", task.subtopology, task.partition, sent, checksum)


def checksum(blobs: Iterable[bytes]) -> int:
    """What tells one computation of the same records from another that differs; others than records do not count.

    >>> checksum([b"R1", b"R2"]) == checksum([b"R1", b"F", b"R2"]), checksum([b"R1", b"R2"]) == checksum([b"R2", b"R1"])
    (True, False)
    """
    length, found = 0, 0
    for blob in blobs:
        if blob[:1] == b"R":
            length, found = length + len(blob), zlib.crc32(blob, found)  # 1 GB/s: 0.1 µs for a record
    return (length & 0xFFFFFFFF) << 32 | found


@dataclass
class Received:
    """What a shuffle brought to a lane; `failure` is the first one, and then the rest does not matter."""

    batches: dict[TopicPartition, ShuffledBatch] = field(default_factory=dict)
    flow: Flow = field(default_factory=Flow)
    counts: list[TaskCounts] = field(default_factory=list)
    failure: Failure | None = None
    ended: dict[TaskId, int] = field(default_factory=dict)
    checksums: dict[TaskId, int] = field(default_factory=dict)
    count: int = 0

    def check(self, expected: Mapping[TaskId, int]) -> None:
        """Raise where not all has come that these tasks before the shuffle have sent, each with its checksum."""
        missing = [str(task) for task in expected if task not in self.ended]
        sent = sum(self.ended.values())
        if missing or sent != self.count:
            raise TaskMigratedError(
                f"what came before a shuffle has come only in part ({self.count} of {sent} blobs, nothing of the end of "
                f"{', '.join(missing) or 'no task'}): an executor was lost; the turn is run again"
            )
        if differing := [str(task) for task, known in expected.items() if self.checksums[task] != known]:
            raise TaskMigratedError(
                f"Spark has computed again what comes before a shuffle, since an executor was lost, and {', '.join(differing)} "
                "gave other records than before: nothing of it is taken, and the turn is run again. Either a function there does "
                "not repeat, which repartition.transport = topic allows for, or records of its topics have been deleted meanwhile"
            )


def read_blobs(blobs: Iterable[bytes]) -> Received:
    """What the blobs of a lane say; raises `SerializationError` where one is none of ours."""
    received = Received()
    found: dict[TopicPartition, list[ShuffledBatch]] = {}
    for blob in blobs:
        tag = blob[:1]
        received.count += tag != b"E"
        if tag == b"E":
            task, sent, known = _ended(blob)
            received.ended[task], received.checksums[task] = sent, known
        elif tag == b"R":
            target, data = _addressed(blob)
            found.setdefault(target, []).append(_batch(target, data))
        elif tag == b"F":
            received.flow.add(_decoded(blob, Flow))
        elif tag == b"C":
            received.counts.append(_decoded(blob, TaskCounts))
        elif tag == b"X":
            received.failure = received.failure or _decoded(blob, Failure)
        else:
            raise SerializationError(f"a blob of {len(blob)} bytes came through the shuffle that is none of the application's")
    received.batches = {target: ShuffledBatch.concat(batches) for target, batches in found.items()}
    return received


def _ended(blob: bytes) -> tuple[TaskId, int, int]:
    try:
        _, subtopology, partition, sent, known = _END.unpack(blob)
    except struct.error as exc:
        raise SerializationError(f"a blob of the shuffle should say what has ended: {exc}") from exc
    return TaskId(subtopology, partition), sent, known


def _addressed(blob: bytes) -> tuple[TopicPartition, memoryview]:
    try:
        _, length, partition = _HEAD.unpack_from(blob)
        topic = blob[_HEAD.size : _HEAD.size + length].decode()
    except (struct.error, UnicodeDecodeError) as exc:
        raise SerializationError(f"a blob of the shuffle does not say which partition it is for: {exc}") from exc
    return TopicPartition(topic, partition), memoryview(blob)[_HEAD.size + length + -length % 8 :]


def _batch(target: TopicPartition, data: memoryview) -> ShuffledBatch:
    try:
        return ShuffledBatch.from_bytes(data)
    except SerializationError as exc:
        raise SerializationError(f"what the shuffle brought for {target}: {exc}") from exc


def _decoded(blob: bytes, kind: type[_T]) -> _T:
    found = _CODEC.decode(blob[1:])
    if not isinstance(found, kind):
        raise SerializationError(f"a blob of the shuffle should have a {kind.__name__} in it")
    return found
