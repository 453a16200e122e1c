"""How much of a block a task has processed, in the metadata of its committed offset.

All rows of a block have the offset of its Kafka record. A task that waits for another partition may stop in the middle of a
block. Then the offset of the block is committed, and the metadata says how many of its rows were processed: `times|rows=7`. It is
the last part, behind what `vector_upgrade.py` carries.
"""

from __future__ import annotations

from penstock.runtime.offset_metadata import OffsetAndMetadata

_ROWS = "rows="


def with_processed_rows(committed: OffsetAndMetadata, rows: int) -> OffsetAndMetadata:
    """The same commit, with the number of rows of the block at its offset that were processed.

    >>> processed_rows(with_processed_rows(OffsetAndMetadata(7), 3)), with_processed_rows(OffsetAndMetadata(7), 0)
    ((7, 3), OffsetAndMetadata(offset=7, metadata=''))
    """
    return committed._replace(metadata=f"{committed.metadata}|{_ROWS}{rows}") if rows else committed


def processed_rows(committed: OffsetAndMetadata) -> tuple[int, int] | None:
    """The offset of a block and the number of its rows that were processed; None if no block was begun."""
    _, found, rows = committed.metadata.rpartition(f"|{_ROWS}")
    return (committed.offset, int(rows)) if found and rows.isascii() and rows.isdigit() and len(rows) < 10 else None


def without_extras(committed: OffsetAndMetadata) -> OffsetAndMetadata:
    """The part of a commit that a task understands: its offset and times."""
    return committed._replace(metadata=committed.metadata.partition("|")[0])
