"""Offsets that are committed, in parts that brokers take.

What one request commits is one batch of the brokers' offsets topic, of 1 MB unless they are told otherwise (`message.max.bytes`).
Many tasks, or offset metadata of earlier releases, come to more. In a transaction all parts are committed, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata

PART_BYTES = 400_000
"""Well below a megabyte: the group's name is repeated with every partition."""

_EACH = 150  # besides names and metadata: the record around it, and the group's name


def offset_parts(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], most: int = PART_BYTES
) -> Iterator[dict[TopicPartition, OffsetAndMetadata]]:
    """The same offsets, so many at a time that a request stays below `most` bytes.

    >>> offsets = {TopicPartition("words", p): OffsetAndMetadata(0, "x" * 845) for p in range(5)}
    >>> [len(part) for part in offset_parts(offsets, 2_500)]
    [2, 2, 1]
    """
    part: dict[TopicPartition, OffsetAndMetadata] = {}
    size = 0
    for partition, offset in offsets.items():
        added = len(partition.topic) + len(offset.metadata) + _EACH
        if part and size + added > most:
            yield part
            part, size = {}, 0
        part[partition] = offset
        size += added
    if part:
        yield part


def metadata_refused(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> StreamsError:
    """Says whose positions are longer than a broker keeps."""
    longest = max(offsets, key=lambda partition: len(offsets[partition].metadata))
    return StreamsError(
        f"what is committed with {longest} takes {len(offsets[longest].metadata):,} bytes, more than the brokers keep: raise "
        "their offset.metadata.max.bytes (4,096 unless it was set)"
    )
