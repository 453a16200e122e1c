"""How far a task behind a shuffle has consumed each source partition: its vector.

It is committed, in the task's transaction, as the metadata of its own repartition partition: `times|number|offsets`, where
`times` is the carry-over every task commits, `number` how many shuffled records the task has consumed, and `offsets` one
position per source partition, in their order. A position `7+2` says that of the records made of offset 7 the task has
consumed two: one input record may become many, and a task that waits for another partition may stop between them. The
committed offset itself stays 0: nothing is in the topic, and lag tools show none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from penstock.errors import SerializationError
from penstock.ids import TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata

_DIGITS = 18  # less than the largest offset there can be

_NONE: Mapping[TopicPartition, int] = MappingProxyType({})


class Vector(NamedTuple):
    """A position in each source partition, and the number of records made of them so far.

    `begun` tells of positions that were consumed in part how many of their records were.

    >>> sources = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
    >>> committed = Vector(7, {sources[0]: 3, sources[1]: 4}).committed("", sources)
    >>> committed
    OffsetAndMetadata(offset=0, metadata='|7|3,4')
    >>> Vector.of(committed, sources).positions == {sources[0]: 3, sources[1]: 4}
    True
    """

    number: int
    positions: Mapping[TopicPartition, int]
    begun: Mapping[TopicPartition, int] = _NONE

    @classmethod
    def of(cls, committed: OffsetAndMetadata | None, sources: Sequence[TopicPartition]) -> Vector:
        """What was committed; an empty vector where nothing was. Raises SerializationError where it cannot be read."""
        if committed is None or committed.metadata.count("|") != 2:
            return cls(0, {})
        _, number, offsets = committed.metadata.split("|")
        parts = {source: text.partition("+") for source, text in zip(sources, offsets.split(","))}
        try:
            begun = {source: _number(some) for source, (_, plus, some) in parts.items() if plus}
            return cls(_number(number), {source: _number(offset) for source, (offset, _, _) in parts.items()}, begun)
        except ValueError as exc:
            raise _unreadable(committed) from exc

    def committed(self, times: str, sources: Sequence[TopicPartition]) -> OffsetAndMetadata:
        """What to commit."""
        offsets = ",".join(
            f"{self.positions[source]}+{self.begun[source]}" if self.begun.get(source) else str(self.positions[source])
            for source in sources
        )
        return OffsetAndMetadata(0, f"{times}|{self.number}|{offsets}")


def without_vector(committed: OffsetAndMetadata) -> OffsetAndMetadata:
    """The part of a commit that a task understands: its times, and as its offset the number of records it has consumed."""
    if committed.metadata.count("|") != 2:
        return committed
    times, number, _ = committed.metadata.split("|")
    try:
        return OffsetAndMetadata(_number(number), times)
    except ValueError as exc:
        raise _unreadable(committed) from exc


def _number(text: str) -> int:
    """A number as it was written; `int` takes more: signs, blanks, underscores, digits of all scripts, and any size."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"not a number: {text[:50]!r}")
    return int(text)


def _unreadable(committed: OffsetAndMetadata) -> SerializationError:
    return SerializationError(
        f"the positions that were committed for a task behind a shuffle cannot be read: {committed.metadata[:200]!r}; "
        "somebody else has committed for this group: `penstock reset` starts the application over"
    )
