"""How far a task behind a shuffle has consumed each source partition: its vector.

It is committed, in the task's transaction, as the metadata of its own repartition partition: `times|number|offsets`, where
`times` is the carry-over every task commits, `number` how many shuffled records the task has consumed, and `offsets` one
position per source partition, in their order. A position `7+2` says that of the records made of offset 7 the task has
consumed two: one input record may become many, and a task that waits for another partition may stop between them. The
committed offset itself stays 0: nothing is in the topic, and lag tools show none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from penstock.ids import TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata

_log = logging.getLogger(__name__)

_NUMBER = "[0-9]{1,18}"  # less than the largest offset there can be
_POSITION = rf"{_NUMBER}(?:\+{_NUMBER})?"
_VECTOR = re.compile(rf"(?P<times>[^|]*)\|(?P<number>{_NUMBER})\|(?P<offsets>(?:{_POSITION}(?:,{_POSITION})*)?)")

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
        """What was committed; an empty vector where nothing was, or something that is none, with a warning."""
        known = None if committed is None else _parts(committed.metadata)
        if known is None:
            return cls(0, {})
        parts = {source: text.partition("+") for source, text in zip(sources, known.offsets.split(",") if known.offsets else ())}
        begun = {source: int(some) for source, (_, _, some) in parts.items() if some}
        return cls(known.number, {source: int(offset) for source, (offset, _, _) in parts.items()}, begun)

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
    known = _parts(committed.metadata)
    return OffsetAndMetadata(0, "") if known is None else OffsetAndMetadata(known.number, known.times)


class _Parts(NamedTuple):
    times: str
    number: int
    offsets: str


def _parts(metadata: str) -> _Parts | None:
    """What a commit's text is made of; whoever may commit offsets of the group may have written anything there."""
    if metadata.count("|") != 2:
        return None
    match = _VECTOR.fullmatch(metadata)
    if match is None:
        _log.warning("The offsets that were committed for a repartition are not understood and count as none: %.100r", metadata)
        return None
    return _Parts(match["times"], int(match["number"]), match["offsets"])
