"""How far a task behind a shuffle has consumed each source partition: its vector.

It is committed, in the task's transaction, as the metadata of its own repartition partition: `times|number|sources`, where
`times` is the carry-over every task commits, `number` how many shuffled records the task has consumed, and `sources` the
positions in each source topic, by its name: `lines=3,4;orders=7+2`. So a topic that comes, goes or grows leaves the positions in
the others as they are. A position `7+2` says that of the records made of offset 7 the task has consumed two: one input record
may become many, and a task that waits for another partition may stop between them. The committed offset itself stays where the
topic has been read to: it gets nothing while there is a shuffle, and lag tools show none.
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

_DIGITS = 18  # less than the largest offset there can be

HAD = "had"
"""In place of a vector's number: the task carries what others had of its source (`spark/worker/vector_upgrade.py`)."""

_NONE: Mapping[TopicPartition, int] = MappingProxyType({})


class Vector(NamedTuple):
    """A position in each source partition, and the number of records made of them so far.

    `begun` tells of positions that were consumed in part how many of their records were.

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
        """What was committed for these sources, as far as they are named; an empty vector where nothing was.

        Raises SerializationError where it cannot be read.
        """
        if not is_vector(committed):
            return cls(0, {})
        assert committed is not None
        _, number, text = committed.metadata.split("|")
        # Before they were named, positions stood in the order of the sources.
        found = by_name(text) if "=" in text else dict(zip(sources, text.split(",")))
        try:
            parts = {source: read_position(found[source]) for source in sources if source in found}
            begun = {source: some for source, (_, some) in parts.items() if some}
            return cls(_number(number), {source: offset for source, (offset, _) in parts.items()}, begun)
        except ValueError as exc:
            raise unreadable(committed) from exc

    def committed(self, times: str, sources: Sequence[TopicPartition], offset: int = 0) -> OffsetAndMetadata:
        """What to commit; `sources` are all partitions of their topics, in order, `offset` is how far the topic has been read."""
        if self.begun:
            positions = {source: self.position(source) for source in sources}
        else:  # nearly always; each of 64 tasks behind 64 partitions writes 64 of them with every commit
            positions = dict(zip(sources, map(str, map(self.positions.__getitem__, sources))))
        return OffsetAndMetadata(offset, f"{times}|{self.number}|{named(positions)}")

    def position(self, source: TopicPartition) -> str:
        """A position as text."""
        begun = self.begun.get(source)
        return f"{self.positions[source]}+{begun}" if begun else str(self.positions[source])


def is_vector(committed: OffsetAndMetadata | None) -> bool:
    """Whether a task was fed by a shuffle when it committed."""
    return committed is not None and committed.metadata.count("|") == 2 and committed.metadata.split("|")[1] != HAD


def named(positions: Mapping[TopicPartition, str]) -> str:
    """Positions by the name of their topic; partitions of a topic follow each other from the first."""
    topics = groupby(positions, itemgetter(0))
    return ";".join(f"{topic}={','.join(map(positions.__getitem__, some))}" for topic, some in topics)


def by_name(text: str) -> dict[TopicPartition, str]:
    """What `named` wrote."""
    topics = (entry.partition("=") for entry in text.split(";"))
    return {
        TopicPartition(topic, partition): position
        for topic, _, positions in topics
        for partition, position in enumerate(positions.split(","))
    }


def read_position(text: str) -> tuple[int, int]:
    """An offset, and how many of its records were consumed; raises ValueError where the text is none."""
    offset, plus, begun = text.partition("+")
    return _number(offset), _number(begun) if plus else 0


def _number(text: str) -> int:
    """A number as it was written; `int` takes more: signs, blanks, underscores, digits of all scripts, and any size."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"not a number: {text[:50]!r}")
    return int(text)


def unreadable(committed: OffsetAndMetadata) -> SerializationError:
    """Says that positions were committed that nobody can read."""
    return SerializationError(
        f"the positions that were committed for a task behind a shuffle cannot be read: {committed.metadata[:200]!r}; "
        "somebody else has committed for this group: `penstock reset` starts the application over"
    )
