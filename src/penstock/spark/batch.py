"""Records on their way from a sub-topology before the shuffle to a task behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns.columns import ProducedColumns, RawColumns
from penstock.ids import TopicPartition
from penstock.record import Headers
from penstock.spark.batch_format import SIDE, headers_column, headers_of, read_columns, side_column, side_of, write_columns

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]


class ShuffledBatch:
    """Records for one partition of a repartition topic, each with the source partition (by index) and offset it was made from.

    Where the target only counts, `weights` tells how many records a row stands for; its timestamp is then the latest of them
    and `ranks` the time by which it is merged with the rows of other sources.

    Rows with an entry in `side` are not for the task: they ride along to be written to that topic.
    """

    __slots__ = ("headers", "keys", "offsets", "ranks", "side", "sources", "timestamps", "values", "weights")

    def __init__(
        self,
        keys: pa.Array,
        values: pa.Array,
        timestamps: Longs,
        sources: Longs,
        offsets: Longs,
        headers: list[Headers] | None = None,
        weights: Longs | None = None,
        ranks: Longs | None = None,
        side: pa.Array | None = None,
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.sources = sources
        self.offsets = offsets
        self.headers = headers
        self.weights = weights
        self.ranks = ranks
        self.side = side

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[Any, Any, int, Headers, int, int]],
        counted: bool = False,
        side: Sequence[tuple[str | None, int | None]] | None = None,
    ) -> ShuffledBatch:
        """From (key, value, timestamp, headers, source, offset); `side` tells where each row is to be written, if anywhere."""
        keys, values, timestamps, headers, sources, offsets = zip(*rows) if rows else ((),) * 6
        return cls(
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            np.array(timestamps, np.int64),
            np.array(sources, np.int64),
            np.array(offsets, np.int64),
            list(headers) if any(headers) else None,
            np.ones(len(rows), np.int64) if counted else None,
            np.array(timestamps, np.int64) if counted else None,
            None if side is None else side_column(*zip(*side)),
        )

    @classmethod
    def concat(cls, batches: Sequence[ShuffledBatch]) -> ShuffledBatch:
        """All rows, one batch after the other."""
        if len(batches) == 1:
            return batches[0]
        if not batches:
            return cls.of_rows(())
        headers = None
        if any(batch.headers is not None for batch in batches):
            headers = [some for batch in batches for some in batch.headers or [()] * len(batch)]
        side = None
        if any(batch.side is not None for batch in batches):
            side = pa.concat_arrays([pa.nulls(len(batch), SIDE) if batch.side is None else batch.side for batch in batches])
        counted = batches[0].weights is not None
        return cls(
            pa.concat_arrays([batch.keys for batch in batches]),
            pa.concat_arrays([batch.values for batch in batches]),
            np.concatenate([batch.timestamps for batch in batches]),
            np.concatenate([batch.sources for batch in batches]),
            np.concatenate([batch.offsets for batch in batches]),
            headers,
            np.concatenate([batch.weights for batch in batches]) if counted else None,
            np.concatenate([batch.ranks for batch in batches]) if counted else None,
            side,
        )

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def records(self) -> int:
        """How many records it stands for, without those that only ride along."""
        own = np.ones(len(self), bool) if self.side is None else self.side.is_null().to_numpy(zero_copy_only=False)
        return int(own.sum() if self.weights is None else self.weights[own].sum())

    def take(self, rows: Longs) -> ShuffledBatch:
        """Some of the rows, in the given order."""
        chosen = pa.array(rows)
        return ShuffledBatch(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.timestamps[rows],
            self.sources[rows],
            self.offsets[rows],
            None if self.headers is None else [self.headers[row] for row in rows],
            None if self.weights is None else self.weights[rows],
            None if self.ranks is None else self.ranks[rows],
            None if self.side is None else self.side.take(chosen),
        )

    def slice(self, start: int, stop: int) -> ShuffledBatch:
        """Rows that follow each other, without copying them."""
        return ShuffledBatch(
            self.keys.slice(start, stop - start),
            self.values.slice(start, stop - start),
            self.timestamps[start:stop],
            self.sources[start:stop],
            self.offsets[start:stop],
            None if self.headers is None else self.headers[start:stop],
            None if self.weights is None else self.weights[start:stop],
            None if self.ranks is None else self.ranks[start:stop],
            None if self.side is None else self.side.slice(start, stop - start),
        )

    def in_time_order(self, begun: Mapping[int, tuple[int, int]]) -> ShuffledBatch:
        """The records of all sources as a task merges its inputs: each source in its order, the lowest head first.

        `begun` tells of sources how many records made of which offset are to be left out, the first of them.
        """
        found = np.unique(self.sources)
        if len(found) < 2 and not begun:
            return self
        rows = [self._rows_of(int(source), begun.get(int(source))) for source in found]
        # Lowest head first is a stable sort by the latest time seen so far in each source: a late record follows at once.
        times = self.timestamps if self.ranks is None else self.ranks
        latest = [np.maximum.accumulate(times[some]) for some in rows]
        order = np.argsort(np.concatenate(latest), kind="stable")
        return self.take(np.concatenate(rows)[order])

    def _rows_of(self, source: int, begun: tuple[int, int] | None) -> Longs:
        rows: Longs = np.flatnonzero(self.sources == source)
        if begun is None:
            return rows
        offset, consumed = begun
        # By the offset, not by counting rows: it may be gone, or give fewer records now than when it was begun.
        return np.delete(rows, np.flatnonzero(self.offsets[rows] == offset)[:consumed])

    def columns(self, partition: TopicPartition, first_offset: int) -> RawColumns:
        """The records as a task reads them, numbered from `first_offset`."""
        return RawColumns(
            partition.topic,
            partition.partition,
            range(first_offset, first_offset + len(self)),
            self.timestamps.tolist(),
            self.keys.to_pylist(),
            self.values.to_pylist(),
            self.headers,
        )

    def without_side(self) -> tuple[ShuffledBatch, ShuffledBatch | None]:
        """What a task is to process, and what it is only to write; None where that is nothing."""
        if self.side is None:
            return self, None
        rides = self.side.is_valid().to_numpy(zero_copy_only=False)
        own = self.take(np.flatnonzero(~rides))
        own.side = None
        return own, self.take(np.flatnonzero(rides)) if rides.any() else None

    def side_outputs(self) -> list[ProducedColumns]:
        """The records that all rows of a batch are to be written as, in their order."""
        places = [] if self.side is None else side_of(self.side)
        keys, values, timestamps = self.keys.to_pylist(), self.values.to_pylist(), self.timestamps.tolist()
        outputs, start = [], 0
        for (topic, partition), run in groupby(places):
            rows = slice(start, start := start + sum(1 for _ in run))
            headers = None if self.headers is None else self.headers[rows]
            outputs.append(ProducedColumns(topic, partition, keys[rows], values[rows], timestamps[rows], headers))
        return outputs

    def to_bytes(self, head: bytes = b"") -> bytes:
        """One Arrow IPC stream, behind a head whose length is a multiple of eight."""
        columns = {
            "key": self.keys,
            "value": self.values,
            "timestamp": pa.array(self.timestamps),
            "source": pa.array(self.sources),
            "offset": pa.array(self.offsets),
        }
        if self.headers is not None:
            columns["headers"] = headers_column(self.headers)
        if self.side is not None:
            columns["side"] = self.side
        if self.weights is not None:
            columns["weight"], columns["rank"] = pa.array(self.weights), pa.array(self.ranks)
        return write_columns(columns, head)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> ShuffledBatch:
        """What `to_bytes` wrote; raises `SerializationError` for anything else."""
        columns = read_columns(data)
        return cls(
            columns["key"],
            columns["value"],
            columns["timestamp"].to_numpy(),
            columns["source"].to_numpy(),
            columns["offset"].to_numpy(),
            headers_of(columns["headers"]) if "headers" in columns else None,
            columns["weight"].to_numpy() if "weight" in columns else None,
            columns["rank"].to_numpy() if "rank" in columns else None,
            columns.get("side"),
        )
