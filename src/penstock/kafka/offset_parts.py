"""Splits offsets into commit requests that brokers accept.

One commit request is one batch of the brokers' offsets topic, at most 1 MB by default (`message.max.bytes`). Many tasks, or
offset metadata of earlier releases, can exceed it. In a transaction, all parts are committed or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata

PART_BYTES = 400_000
"""Well below 1 MB: the group's name is repeated for each partition."""

_EACH = 150  # per partition: the record's framing and the group's name


def offset_parts(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], most: int = PART_BYTES
) -> Iterator[dict[TopicPartition, OffsetAndMetadata]]:
    """Yield the offsets in parts whose requests stay below `most` bytes.

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
    """Return the error for offset metadata that is larger than the broker's limit."""
    longest = max(offsets, key=lambda partition: len(offsets[partition].metadata))
    return StreamsError(
        f"The offset metadata of {longest} has {len(offsets[longest].metadata):,} bytes, more than the brokers accept. Raise "
        "their offset.metadata.max.bytes (4,096 unless it was set)"
    )
