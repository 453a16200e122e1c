"""Offset vectors of earlier releases, which sent repartitions through Spark's shuffle: the position of a task in each source
partition.

A vector is the metadata of the task's repartition partition: `times|number|sources`. `times` has the stream times that every
task commits, `number` counts the consumed shuffled records, and `sources` has the positions in each source topic by name:
`lines=3,4;orders=7+2`. Added or removed topics therefore leave other positions unchanged. The position `7+2` means that two
of the records made from offset 7 were consumed. The committed offset itself does not move while a shuffle is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata

_DIGITS = 18  # fewer than the largest possible offset has

HAD = "had"
"""Replaces a vector's number: the task has the positions of all targets in its source (`spark/worker/vector_upgrade.py`)."""

_NONE: Mapping[TopicPartition, int] = MappingProxyType({})


class Vector(NamedTuple):
    """A position in each source partition, and the number of consumed records.

    `begun` has the number of consumed records for positions that were consumed in part.

    >>> sources = [TopicPartition("lines", 0), TopicPartition("lines", 1), TopicPartition("words", 0)]
    >>> committed = Vector(7, dict(zip(sources, (3, 4, 5))), {sources[2]: 1}).committed("", sources)
    >>> committed
    OffsetAndMetadata(offset=0, metadata='|7|lines=3,4;words=5+1')
    >>> is_vector(committed), is_vector(OffsetAndMetadata(12))
    (True, False)
    >>> Vector.of(committed, [TopicPartition("birds", 0), *sources[1:]]).positions == {sources[1]: 4, sources[2]: 5}
    True
    """

    number: int
    positions: Mapping[TopicPartition, int]
    begun: Mapping[TopicPartition, int] = _NONE

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None, sources: Sequence[TopicPartition]) -> Vector:
        """Return the committed vector for these sources, or an empty one.

        Raises SerializationError if it cannot be read.
        """
        if not is_vector(committed):
            return cls(0, {})
        assert committed is not None
        _, number, text = committed.metadata.split("|")
        # The oldest format has the positions in the order of the sources, without names.
        found = by_name(text) if "=" in text else dict(zip(sources, text.split(",")))
        try:
            parts = {source: read_position(found[source]) for source in sources if source in found}
            begun = {source: some for source, (_, some) in parts.items() if some}
            return cls(_number(number), {source: offset for source, (offset, _) in parts.items()}, begun)
        except ValueError as exc:
            raise unreadable(committed) from exc

    def committed(self, times: str, sources: Sequence[TopicPartition], offset: int = 0) -> OffsetAndMetadata:
        """Return the offset and metadata to commit. `sources` are all partitions of their topics in order; `offset` is the
        topic's position.
        """
        if self.begun:
            positions = {source: self.position(source) for source in sources}
        else:  # the usual case; each of 64 tasks behind 64 partitions writes 64 positions per commit
            positions = dict(zip(sources, map(str, map(self.positions.__getitem__, sources))))
        return OffsetAndMetadata(offset, f"{times}|{self.number}|{named(positions)}")

    def position(self, source: TopicPartition) -> str:
        begun = self.begun.get(source)
        return f"{self.positions[source]}+{begun}" if begun else str(self.positions[source])


def is_vector(committed: OffsetAndMetadata | None) -> bool:
    """Return True if a committed offset has a vector."""
    return committed is not None and committed.metadata.count("|") == 2 and committed.metadata.split("|")[1] != HAD


def named(positions: Mapping[TopicPartition, str]) -> str:
    """Format positions by topic name. A topic's partitions are listed in order from 0."""
    topics = groupby(positions, itemgetter(0))
    return ";".join(f"{topic}={','.join(map(positions.__getitem__, some))}" for topic, some in topics)


def by_name(text: str) -> dict[TopicPartition, str]:
    """Parse the text of `named`."""
    topics = (entry.partition("=") for entry in text.split(";"))
    return {
        TopicPartition(topic, partition): position
        for topic, _, positions in topics
        for partition, position in enumerate(positions.split(","))
    }


def read_position(text: str) -> tuple[int, int]:
    """Parse an offset and the number of its consumed records. Raises ValueError for other text."""
    offset, plus, begun = text.partition("+")
    return _number(offset), _number(begun) if plus else 0


def _number(text: str) -> int:
    """Parse decimal digits only. `int` also accepts signs, blanks, underscores, other scripts' digits and any size."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"not a number: {text[:50]!r}")
    return int(text)


def unreadable(committed: OffsetAndMetadata) -> SerializationError:
    """Return the error for committed positions that cannot be read."""
    return SerializationError(
        f"The committed positions of a task behind a shuffle cannot be read: {committed.metadata[:200]!r}. "
        "Another program has committed for this group. `penstock reset` starts the application over"
    )
