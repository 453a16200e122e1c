"""Reads the staged history of source partitions before their topics: a `Follower` that has two sources.

Rows of several partitions are taken up to a common time, so tasks of one thread see history in the order of time. A partition
whose history is read is followed in its topic from then on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.batches.record_batch import RawBatch
from penstock.errors import StreamsError
from penstock.ids import TopicPartition
from penstock.kafka.client_metrics import ClientMetrics
from penstock.kafka.fetch import FetchRange
from penstock.kafka.follow import Follower, Taken
from penstock.record import Headers
from penstock.spark.staged_history import Staged, StagedPartition

_ROWS = 16_384
# The most rows that are kept in memory of all partitions together, beyond those of one batch.
_LEAST_AHEAD = 1_024


class HistoryFollower(Follower):
    """A follower of the partitions whose history is `staged`, and of topics."""

    def __init__(self, client_config: Mapping[str, Any], metrics: ClientMetrics | None, staged: Staged) -> None:
        super().__init__(client_config, metrics)
        self._staged = staged
        self._cursors: dict[TopicPartition, _Cursor] = {}
        self._limits: dict[TopicPartition, int] = {}

    def follow(self, positions: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int] | None = None) -> None:
        """Read on from these positions: rows of history that are left, then the topic."""
        limits = until or {}
        past = {p: at for p, at in positions.items() if (found := self._staged.get(p)) is not None and at < found.end}
        self._cursors = {
            p: known if (known := self._cursors.get(p)) is not None and known.at == at else _Cursor(p, self._staged[p], at)
            for p, at in past.items()
        }
        self._limits = dict(limits)
        for partition, cursor in self._cursors.items():
            cursor.limit = min(cursor.end, limits.get(partition, cursor.end))
        super().follow({p: at for p, at in positions.items() if p not in past}, until)

    def reads_history(self, partition: TopicPartition) -> bool:
        """Whether rows of the history of a partition are left that are to be read."""
        cursor = self._cursors.get(partition)
        return cursor is not None and cursor.left > 0

    def _open(self) -> list[_Cursor]:
        return [cursor for p, cursor in self._cursors.items() if cursor.left and p not in self._paused]

    @property
    def waiting(self) -> int:
        """How many records can be taken."""
        return super().waiting + sum(cursor.left for cursor in self._open())

    def wait(self, seconds: float, most: int = 10_000) -> None:
        """Until something has come, or so long; rows of history have come."""
        super().wait(0.0 if self._open() else seconds, most)

    def is_at_end(self, partition: TopicPartition) -> bool:
        """Whether all of a partition has been taken."""
        cursor = self._cursors.get(partition)
        return cursor.left == 0 if cursor is not None else super().is_at_end(partition)

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """How many records of each partition are left to be taken; of a history, its rows."""
        return {**super().lags, **{p: cursor.left for p, cursor in self._cursors.items()}}

    def take(self, most: int) -> Taken:
        """Take rows of history in the order of time, and what has come of topics, about so many records of each at most."""
        found = super().take(most)
        cursors = self._open()
        if not cursors:
            return found
        ahead = max(_LEAST_AHEAD, 2 * most // len(cursors))
        for cursor in cursors:
            cursor.load(min(ahead, most))
        counts = _rows_by_time(cursors, most)
        ranges, columns = dict(found.ranges), dict(found.columns)
        for cursor, count in zip(cursors, counts):
            if count:
                start = cursor.at
                columns[cursor.partition] = cursor.take(count)
                ranges[cursor.partition] = FetchRange(*cursor.partition, start, cursor.at)
        self._go_live()
        return Taken(ranges, columns)

    def _go_live(self) -> None:
        """Follow the topics of partitions whose history has been taken."""
        done = [p for p, cursor in self._cursors.items() if cursor.at >= cursor.end]
        if done:
            ends = {p: self._cursors.pop(p).end for p in done}
            paused = self._paused
            super().follow({**self._at, **ends}, self._limits)
            self.pause(paused)

    def close(self) -> None:
        """Close the consumer and the files."""
        super().close()
        self._cursors = {}


class _Cursor:
    """A position in the history of one partition. `limit` is where a backfill ends, if that is before the end of history."""

    def __init__(self, partition: TopicPartition, staged: StagedPartition, at: int) -> None:
        self.partition, self.at, self.end, self.limit = partition, at, staged.end, staged.end
        self._batches = _rows_from(partition, staged, at - staged.first)
        self._loaded: list[pa.RecordBatch] = []
        self._ahead = 0

    @property
    def left(self) -> int:
        """How many rows are left to be taken."""
        return max(0, self.limit - self.at)

    def load(self, rows: int) -> None:
        """Have so many rows in memory, if there are."""
        while self._ahead < rows and (batch := next(self._batches, None)) is not None:
            self._loaded.append(batch)
            self._ahead += batch.num_rows
        if not self._loaded and self.left:
            raise StreamsError(f"the staged history of {self.partition} ends {self.left} rows too early: its files were changed")

    @property
    def times(self) -> np.ndarray:
        """The times of the rows in memory, in ascending order."""
        times = [batch.column("timestamp").to_numpy(zero_copy_only=False) for batch in self._loaded]
        return np.concatenate(times)[: self.left]

    @property
    def is_loaded(self) -> bool:
        """Whether all rows that are left are in memory."""
        return self._ahead >= self.left

    def take(self, count: int) -> RawBatch:
        """Take rows that are in memory."""
        parts, missing = [], count
        while missing:
            batch = self._loaded[0]
            if batch.num_rows <= missing:
                parts.append(self._loaded.pop(0))
            else:
                parts.append(batch.slice(0, missing))
                self._loaded[0] = batch.slice(missing)
            missing -= parts[-1].num_rows
        self._ahead -= count
        rows = pa.Table.from_batches(parts)
        offsets, self.at = list(range(self.at, self.at + count)), self.at + count
        headers = [_headers(some) for some in rows.column("headers").to_pylist()] if "headers" in rows.column_names else None
        times, keys, values = (rows.column(name).to_pylist() for name in ("timestamp", "key", "value"))
        has_headers = headers is not None and any(headers)
        return RawBatch(*self.partition, offsets, times, keys, values, headers if has_headers else None)


def _rows_by_time(cursors: Sequence[_Cursor], most: int) -> list[int]:
    """How many rows of each to take: the first ones in the common order of time, about so many, at least one."""
    times = [cursor.times for cursor in cursors]
    known = min((some[-1] for some, cursor in zip(times, cursors) if not cursor.is_loaded), default=math.inf)
    counts = [int(np.searchsorted(some, known, side="right")) for some in times]
    if sum(counts) > most:
        every = np.concatenate([some[:count] for some, count in zip(times, counts)])
        last = np.partition(every, most - 1)[most - 1]
        counts = [min(count, int(np.searchsorted(some, last, side="right"))) for some, count in zip(times, counts)]
    return counts


def _rows_from(partition: TopicPartition, staged: StagedPartition, row: int) -> Iterator[pa.RecordBatch]:
    """The rows of the files from one on, in batches."""
    for path, rows in staged.files:
        if row >= rows:
            row -= rows
            continue
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                for group in range(file.metadata.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    if row >= size:
                        row -= size
                        continue
                    for batch in file.iter_batches(_ROWS, row_groups=[group]):
                        if row >= batch.num_rows:
                            row -= batch.num_rows
                            continue
                        yield batch.slice(row)
                        row = 0
        except (OSError, pa.ArrowException) as exc:
            raise StreamsError(
                f"the staged history of {partition} cannot be read: {exc}. The folder history.dir must be shared by the driver "
                "and all executors, and keep its files until the history is processed"
            ) from exc


def _headers(given: Sequence[Mapping[str, object]] | None) -> Headers:
    return tuple((entry["key"], entry["value"]) for entry in given or ())  # type: ignore[misc]
