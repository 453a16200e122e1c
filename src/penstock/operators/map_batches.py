"""KStream.map_batches: a function from one Arrow record batch to another, whole batches at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import StreamsError
from penstock.processor import Processor, ProcessorContext
from penstock.record import Headers, Record

BatchMapper = Callable[[pa.RecordBatch], pa.RecordBatch]

_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class KStreamMapBatches:
    """Supplies processors that hand records to the function as columns and forward the rows of what it returns.

    The columns are `key`, `value` and `timestamp`, and `headers` where a record has some; the result needs the first three
    in any order, with any number of rows. How records are cut into batches is open: a single record is a batch of one.
    """

    def __init__(self, mapper: BatchMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> MapBatchesProcessor:
        """A new processor."""
        return MapBatchesProcessor(self.mapper)


class MapBatchesProcessor(Processor[Any, Any, Any, Any]):
    """Has two faces: `process` for one record and `process_batch` for many."""

    def __init__(self, mapper: BatchMapper) -> None:
        self._mapper = mapper

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Keep the way on."""
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        """A batch of one."""
        self.process_batch((record,))

    def process_batch(self, records: Sequence[Record[Any, Any]]) -> None:
        """Map a batch and forward its rows in order."""
        forward = self._forward
        for record in records_of(self._mapper(batch_of(records))):
            forward(record)


def batch_of(records: Sequence[Record[Any, Any]]) -> pa.RecordBatch:
    """Records as columns; Arrow infers the types.

    >>> batch_of([Record("a", 1, 10)]).to_pylist()
    [{'key': 'a', 'value': 1, 'timestamp': 10}]
    """
    columns = {
        "key": _column("key", [record.key for record in records]),
        "value": _column("value", [record.value for record in records]),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
    }
    if any(record.headers for record in records):
        rows = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
        columns["headers"] = pa.array(rows, _HEADERS_TYPE)
    return pa.RecordBatch.from_pydict(columns)


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as exc:
        raise StreamsError(
            f"map_batches cannot put the {name}s of these records into an Arrow column: {exc}. They must be of one type that "
            "Arrow knows, such as text, numbers, bytes, lists or dicts; use map_values before it, or map instead of it"
        ) from exc


def records_of(batch: Any) -> list[Record[Any, Any]]:
    """The rows of a batch as records.

    >>> records_of(pa.RecordBatch.from_pydict({"key": ["a"], "value": [1], "timestamp": [10]}))
    [Record(key='a', value=1, timestamp=10, headers=())]
    """
    names = set(batch.schema.names) if isinstance(batch, pa.RecordBatch | pa.Table) else set()
    if not names >= {"key", "value", "timestamp"}:
        found = f"columns {sorted(names)}" if names else f"{type(batch).__name__}"
        raise StreamsError(
            f"the function given to map_batches must return a pyarrow.RecordBatch with key, value and timestamp, got {found}"
        )
    timestamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
    if None in timestamps:
        raise StreamsError("the function given to map_batches returned a row without a timestamp")
    headers: list[Headers] = [()] * len(timestamps)
    if "headers" in names:
        headers = [tuple((entry["key"], entry["value"]) for entry in row or ()) for row in batch.column("headers").to_pylist()]
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    return [Record(*row) for row in zip(keys, values, timestamps, headers)]
