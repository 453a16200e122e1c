"""From the shuffle to the topic: what the tasks behind a repartition had of each source when it last went through the shuffle.

Behind a shuffle each task has a position of its own in every source; a task that writes to the topic has one for all of them.
So it starts at the lowest, and leaves out what goes to a partition whose task had it. What each had is carried in the metadata of
the source's committed offset, `times|had|words=7,9+1`, until the source has been read past all of it.

The first of the topics is the one whose tasks wrote what else came from before the shuffle: other sinks, dead letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.dead_letters import ErrorHandlerContext
from penstock.hashing import default_partition
from penstock.ids import TopicPartition
from penstock.record import ProducedRecord
from penstock.runtime.collector import RecordCollector
from penstock.runtime.offset_metadata import OffsetAndMetadata, with_own_offset
from penstock.runtime.sink_format import SinkFormat
from penstock.spark.vectors import HAD, Vector, by_name, named, read_position, unreadable


def shuffle_target(key: bytes | None, offset: int, partitions: int) -> int:
    """Return the partition that the shuffle gave a record: by its key, or by the offset it was made of if it has no key.

    >>> shuffle_target(b"word", 7, 4) == shuffle_target(b"word", 8, 4), shuffle_target(None, 7, 4)
    (True, 3)
    """
    return offset % partitions if key is None else default_partition(key, partitions)


def committed_with_had(
    source: TopicPartition, vectors: Mapping[TopicPartition, Vector], targets: Sequence[TopicPartition], start: int
) -> OffsetAndMetadata:
    """What to commit for a source that goes through the topic from now on; whoever has no position of his own is at `start`.

    >>> line, words = TopicPartition("lines", 0), [TopicPartition("words", 0), TopicPartition("words", 1)]
    >>> committed_with_had(line, {words[0]: Vector(9, {line: 4}), words[1]: Vector(9, {line: 6})}, words, 0)
    OffsetAndMetadata(offset=4, metadata='|had|words=4,6')
    >>> level = committed_with_had(line, {words[0]: Vector(9, {line: 6}), words[1]: Vector(9, {line: 6})}, words, 0)
    >>> level.offset, level == with_own_offset(level), ShuffledBefore.of(level)
    (6, True, None)
    """
    unknown = Vector(0, {source: start})
    found = {target: vectors[target] if source in vectors[target].positions else unknown for target in targets}
    lowest = min(vector.positions[source] for vector in found.values())
    if all(vector.position(source) == str(lowest) for vector in found.values()):
        return with_own_offset(OffsetAndMetadata(lowest))
    text = named({target: vector.position(source) for target, vector in found.items()})
    return OffsetAndMetadata(lowest, f"|{HAD}|{text}")


class ShuffledBefore:
    """What each target had of one source."""

    def __init__(self, text: str) -> None:
        self._text = text
        parts = {target: read_position(position) for target, position in by_name(text).items()}
        self._offsets = {target: offset for target, (offset, _) in parts.items()}
        self._begun = {target: some for target, (_, some) in parts.items() if some}
        self._side = next(iter(self._offsets)).topic
        self._counts = Counter(target.topic for target in self._offsets)

    @classmethod
    def of(cls, committed: OffsetAndMetadata) -> ShuffledBefore | None:
        """What is carried with a committed offset; None where nothing is. Raises SerializationError where it cannot be read."""
        parts = committed.metadata.split("|")
        if len(parts) < 3 or parts[1] != HAD:
            return None
        try:
            return cls(parts[2])
        except ValueError as exc:
            raise unreadable(committed) from exc

    def carried(self, committed: OffsetAndMetadata) -> OffsetAndMetadata:
        """A commit of the source, with this as long as it has not been passed."""
        past = max(offset + (target in self._begun) for target, offset in self._offsets.items())
        if committed.offset >= past:
            return committed
        return OffsetAndMetadata(committed.offset, f"{committed.metadata}|{HAD}|{self._text}")

    def position(self, target: TopicPartition, read_to: int) -> tuple[int, int]:
        """Where a target goes on in the source, which has been read up to an offset, and how many records of that it has had."""
        at = self._offsets.get(target, read_to)
        return (at, self._begun.get(target, 0)) if at >= read_to else (read_to, 0)

    def takes(self, record: ProducedRecord, offset: int, task_partition: int) -> bool:
        """Whether a record made of this offset is new to where it goes; to be asked once for each, in their order."""
        target = self._target(record, offset, task_partition)
        if target not in self._offsets or offset > self._offsets[target]:
            return True
        if record.topic not in self._counts:
            return offset == self._offsets[target]  # written when the task had all of its record, not before
        if offset == self._offsets[target]:
            left = self._begun.get(target, 0)
            if not left:
                return True
            self._begun[target] = left - 1
        return False

    def _target(self, record: ProducedRecord, offset: int, task_partition: int) -> TopicPartition:
        count = self._counts.get(record.topic)
        if count is None:
            return TopicPartition(self._side, task_partition % self._counts[self._side])
        if record.partition is not None:
            return TopicPartition(record.topic, record.partition)
        return TopicPartition(record.topic, shuffle_target(record.key, offset, count))


class SkippingCollector(RecordCollector):
    """Leaves out what the tasks behind the repartition had before; records go through it one by one."""

    gathers = False

    def __init__(self, had: Mapping[TopicPartition, ShuffledBefore], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._had = had

    def send(self, topic: str, record: Any, sink: SinkFormat) -> None:
        """Keep a record that is new to where it goes."""
        before = len(self._outputs)
        super().send(topic, record, sink)
        self._skip(before, sink.context.record_context)

    def send_columns(self, *_: Any, **__: Any) -> bool:
        """No columns: each record is looked at."""
        return False

    def send_raw(self, record: ProducedRecord, error_context: ErrorHandlerContext | None = None) -> None:
        """Keep a dead letter that has not been written before."""
        before = len(self._outputs)
        super().send_raw(record, error_context)
        self._skip(before, error_context)

    def _skip(self, before: int, origin: Any) -> None:
        """Look at what was kept since; where it was not made of a record, as in a punctuator, it is new."""
        if origin is None or origin.topic is None:
            return
        had = self._had.get(TopicPartition(origin.topic, origin.partition))
        if had is not None:
            self._outputs[before:] = [
                record
                for record in self._outputs[before:]
                if not isinstance(record, ProducedRecord) or had.takes(record, origin.offset, self._task_id.partition)
            ]
