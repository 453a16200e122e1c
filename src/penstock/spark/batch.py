"""Records on their way from a sub-topology before the shuffle to a task behind it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.columns import RawColumns
from penstock.ids import TopicPartition
from penstock.record import Headers

if TYPE_CHECKING:
    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]


class ShuffledBatch:
    """Records for one partition of a repartition topic, each with the source partition (by index) and offset it was made from.

    Where the target only counts, `weights` tells how many records a row stands for; its timestamp is then the latest of them
    and `ranks` the time by which it is merged with the rows of other sources.
    """

    __slots__ = ("headers", "keys", "offsets", "ranks", "sources", "timestamps", "values", "weights")

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
    ) -> None:
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.sources = sources
        self.offsets = offsets
        self.headers = headers
        self.weights = weights
        self.ranks = ranks

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[Any, Any, int, Headers, int, int]], counted: bool = False) -> ShuffledBatch:
        """From (key, value, timestamp, headers, source, offset)."""
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
        )

    def __len__(self) -> int:
        return len(self.timestamps)

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

    def to_bytes(self) -> bytes:
        """One Arrow IPC stream: the JVM moves it and never looks inside."""
        columns = {
            "key": self.keys,
            "value": self.values,
            "timestamp": pa.array(self.timestamps),
            "source": pa.array(self.sources),
            "offset": pa.array(self.offsets),
        }
        if self.headers is not None:
            columns["headers"] = pa.array([pickle.dumps(h) if h else None for h in self.headers], pa.binary())
        if self.weights is not None:
            columns["weight"], columns["rank"] = pa.array(self.weights), pa.array(self.ranks)
        batch = pa.RecordBatch.from_pydict(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        found: bytes = sink.getvalue().to_pybytes()
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> ShuffledBatch:
        """What `to_bytes` wrote."""
        batch = pa.ipc.open_stream(data).read_next_batch()
        names = batch.schema.names
        return cls(
            batch.column("key"),
            batch.column("value"),
            batch.column("timestamp").to_numpy(),
            batch.column("source").to_numpy(),
            batch.column("offset").to_numpy(),
            [pickle.loads(h) if h else () for h in batch.column("headers").to_pylist()]  # noqa: S301 - pickled before the shuffle
            if "headers" in names
            else None,
            batch.column("weight").to_numpy() if "weight" in names else None,
            batch.column("rank").to_numpy() if "rank" in names else None,
        )
