"""Records on their way from a sub-topology before the shuffle to a task behind it."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.ids import TopicPartition
from penstock.record import Headers, RawRecord

_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("source", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.binary()),
    ]
)


class ShuffledBatch:
    """Records for one partition of a repartition topic, each with the source partition (by index) and offset it was made from."""

    __slots__ = ("headers", "keys", "offsets", "sources", "timestamps", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.sources: list[int] = []
        self.offsets: list[int] = []
        self.headers: list[Headers] = []

    def __len__(self) -> int:
        return len(self.keys)

    def append(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, source: int, offset: int) -> None:
        """Add one record."""
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(timestamp)
        self.headers.append(headers)
        self.sources.append(source)
        self.offsets.append(offset)

    def extend(self, other: ShuffledBatch) -> None:
        """Add the records of another batch behind these."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))

    def in_time_order(self, begun: Mapping[int, int]) -> ShuffledBatch:
        """The records of all sources as a task merges its inputs: each source in its order, the lowest head first.

        `begun` tells how many of its first records each source is to leave out.
        """
        rows: dict[int, list[int]] = {}
        for row, source in enumerate(self.sources):
            rows.setdefault(source, []).append(row)
        if len(rows) < 2 and not begun:
            return self
        timestamps = self.timestamps
        by_source = [rows[source][begun.get(source, 0) :] for source in sorted(rows)]
        ordered = list(heapq.merge(*by_source, key=timestamps.__getitem__)) if len(rows) > 1 else by_source[0]
        found = ShuffledBatch()
        for name in self.__slots__:
            column = getattr(self, name)
            setattr(found, name, [column[row] for row in ordered])
        return found

    def records(self, partition: TopicPartition, first_offset: int) -> Iterator[RawRecord]:
        """The records as a task reads them, numbered from `first_offset`."""
        topic, index = partition
        rows = zip(self.timestamps, self.keys, self.values, self.headers)
        for offset, (timestamp, key, value, headers) in enumerate(rows, first_offset):
            yield RawRecord(topic, index, offset, timestamp, key, value, headers)

    def to_bytes(self) -> bytes:
        """One Arrow IPC stream: the JVM moves it and never looks inside."""
        headers = [pickle.dumps(h) if h else None for h in self.headers]
        columns = [self.keys, self.values, self.timestamps, self.sources, self.offsets, headers]
        batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA)], schema=_SCHEMA)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as writer:
            writer.write_batch(batch)
        found: bytes = sink.getvalue().to_pybytes()
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> ShuffledBatch:
        """What `to_bytes` wrote."""
        table = pa.ipc.open_stream(data).read_all()
        batch = cls()
        batch.keys, batch.values = table["key"].to_pylist(), table["value"].to_pylist()
        batch.timestamps, batch.sources = table["timestamp"].to_pylist(), table["source"].to_pylist()
        batch.offsets = table["offset"].to_pylist()
        batch.headers = [pickle.loads(h) if h else () for h in table["headers"].to_pylist()]
        return batch
