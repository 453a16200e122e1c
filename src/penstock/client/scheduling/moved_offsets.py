"""Offsets of sources before a shuffle that somebody else has moved while the application was stopped: its vectors follow.

Tasks behind a shuffle go on from their vectors; what is committed for a source only shows its lag. But to move what is committed,
with `kafka-consumer-groups --reset-offsets` or any admin client, is how a stopped application is sent back or forward, so it has
to count. What the application commits for a source itself carries a mark with the offset (`carry_over.with_own_offset`), and
what a tool commits carries nothing. That the lag is shown later than the vectors are committed, or not at all before a crash, is
no move: the last mark still fits its offset.

Where an offset was moved, the group's leader commits all vectors anew with it, and the source with a mark, in one request and
before anybody works. A crash before that changes nothing, and after it nothing is left to be done. An offset from before the
application first ran gets its mark in the same way: no vector may be committed before it, or the offset would look moved later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.ids import TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata, is_anothers, own_offset
from penstock.spark.vectors import Vector, is_vector


def moved_offsets(read_to: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    """The sources whose offsets somebody else has committed, with these."""
    return {source: committed.offset for source, committed in read_to.items() if is_anothers(committed)}


def followed(vector: Vector, moved: Mapping[TopicPartition, int]) -> Vector:
    """A vector that has followed what was moved; what it does not know is found where its source was committed.

    >>> lines = [TopicPartition("lines", 0), TopicPartition("lines", 1)]
    >>> followed(Vector(9, {lines[0]: 7, lines[1]: 5}, {lines[0]: 2}), {lines[0]: 3}) == Vector(9, {lines[0]: 3, lines[1]: 5}, {})
    True
    """
    changed = {source: at for source, at in moved.items() if source in vector.positions}
    begun = {source: some for source, some in vector.begun.items() if source not in changed}
    return Vector(vector.number, {**vector.positions, **changed}, begun)


def followed_commits(
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    sources: Sequence[TopicPartition],
    moved: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit for tasks behind the shuffle of these sources, with vectors that follow; nothing for those that are there.

    One whose repartition topic goes on behind what is committed, up to one of `ends`, had its records from there in between: they
    come first, and it goes on where its sources are committed then.
    """
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for target, before in committed.items():
        if not is_vector(before):
            continue
        own = Vector.of(before, sources)
        vector = followed(own, moved)
        if all(vector.position(source) == own.position(source) for source in own.positions):
            continue
        times = before.metadata.partition("|")[0]
        if ends[target] > before.offset:
            found[target] = OffsetAndMetadata(before.offset, times)
        else:
            named = [source for source in sources if source in vector.positions]
            found[target] = vector.committed(times, named, before.offset)
    return found


def shown_moves(changed: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    """The sources among what is committed, as text for the log."""
    return ", ".join(f"{source} at {some.offset}" for source, some in changed.items() if own_offset(some) == some.offset)
