"""The history of source partitions as it is staged: sorted rows in Parquet files, with offsets of their own.

Row r of R rows has the offset `end - R + r`. So history lies before the offset `end`, from which on the topic is read, and the
position in both is one number:

      first            end
        │ history       │ topic
    ────┼───────────────┼─────────────►  offset
      end - R

Kafka has no negative offsets, so a position in history is committed as the offset `end` with the number of processed rows in the
metadata: `times|history=<rows>,<stage>`. The stage is a fingerprint of the rows. It tells whether rows that were staged again are
the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.runtime.offset_metadata import OffsetAndMetadata

_MARK = "|history="
_MARKED = re.compile(r"(\d{1,18}),([0-9a-f]{1,16})")


@dataclass(frozen=True)
class StagedPartition:
    """The history of one source partition: Parquet files with their numbers of rows, in the order of time."""

    files: tuple[tuple[str, int], ...]
    end: int
    """The offset from which on the topic is read."""
    stage: str

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(rows for _, rows in self.files)

    @property
    def first(self) -> int:
        """The offset of the first row.

        >>> StagedPartition((("a", 3), ("b", 2)), 4, "1f").first
        -1
        """
        return self.end - self.rows

    def position(self, partition: TopicPartition, committed: OffsetAndMetadata | None) -> int:
        """The position of what is committed, before `end` if history is left; nothing committed is the first row."""
        if committed is None:
            return self.first
        found = history_rows(committed)
        if found is None:
            return committed.offset
        rows, stage = found
        if stage != self.stage or rows > self.rows:
            raise StreamsError(
                f"the history of {partition} has changed: {rows} rows of another table were processed. Restore the table, or "
                "reset the application (penstock reset) and start again"
            )
        return self.first + rows

    def committed(self, position: OffsetAndMetadata) -> OffsetAndMetadata:
        """What is committed for a position.

        >>> staged = StagedPartition((("a", 3),), 10, "1f")
        >>> staged.committed(OffsetAndMetadata(9)), staged.committed(OffsetAndMetadata(10))
        (OffsetAndMetadata(offset=10, metadata='|history=2,1f'), OffsetAndMetadata(offset=10, metadata=''))
        >>> staged.position(TopicPartition("t", 0), staged.committed(OffsetAndMetadata(9)))
        9
        """
        if position.offset >= self.end:
            return position
        return OffsetAndMetadata(self.end, f"{position.metadata}{_MARK}{position.offset - self.first},{self.stage}")

    def offset_at(self, timestamp: int) -> int | None:
        """The offset of the first row at or after a time; None if all rows are before it."""
        before = 0
        for path, _ in self.files:
            with pq.ParquetFile(path) as file:
                column = file.schema_arrow.get_field_index("timestamp")
                for number in range(file.metadata.num_row_groups):
                    group = file.metadata.row_group(number)
                    known = group.column(column).statistics
                    if known is not None and known.has_min_max and known.max < timestamp:
                        before += group.num_rows
                        continue
                    times = file.read_row_group(number, columns=["timestamp"]).column(0).to_numpy()
                    row = int(np.searchsorted(times, timestamp))
                    before += row
                    if row < len(times):
                        return self.first + before
        return None


Staged = Mapping[TopicPartition, StagedPartition]


def is_set(committed: OffsetAndMetadata) -> bool:
    """Whether an offset was set by a tool, such as `penstock reset`: the application starts over, with its history."""
    return not committed.metadata


def history_rows(committed: OffsetAndMetadata) -> tuple[int, str] | None:
    """How many rows of history are committed, and the fingerprint of all; None if a commit is of the topic."""
    found = _MARKED.fullmatch(committed.metadata.rpartition(_MARK)[2]) if _MARK in committed.metadata else None
    return None if found is None else (int(found[1]), found[2])
