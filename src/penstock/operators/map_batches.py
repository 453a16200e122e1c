"""KStream.map_batches: a function from one Arrow record batch to another, whole batches at a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.batches.batch_processor import BatchProcessor, Operator
from penstock.batches.record_batch import RecordBatch
from penstock.errors import StreamsError
from penstock.operators.arrow_types import array_of, runs
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.operators.rows import row_by_row
from penstock.record import Headers, Record

BatchMapper = Callable[[pa.RecordBatch], pa.RecordBatch]

_AS_THEY_ARE = frozenset({str, int, bool, bytes, type(None)})
_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Rows(NamedTuple):
    """The rows of a result that is no Arrow batch."""

    keys: list[Any]
    values: list[Any]
    timestamps: list[int | None]
    headers: list[Any] | None


class KStreamMapBatches(Operator):
    """Supplies processors that hand records to the function as columns and forward the rows of what it returns.

    The columns are `key`, `value` and `timestamp`, and `headers` where a record has some; the result needs the first three
    in any order, with any number of rows. How records are cut into batches is open: a single record is a batch of one.
    Keys and values of a batch have the types of the schema, or without one each the same type by itself (`arrow_types`).
    """

    def __init__(self, mapper: BatchMapper, schema: pa.Schema | None = None) -> None:
        self.mapper = mapper
        self.schema = schema

    def __call__(self) -> MapBatchesProcessor:
        return MapBatchesProcessor(self.mapper, self.schema)


class PandasMapper:
    """A function of pandas' data frames as one of Arrow's batches.

    Numbers that may be missing stay whole numbers, as objects; what pandas takes for missing (None, NaN) is null. Each
    object that the function returns is converted by itself.
    """

    def __init__(self, mapper: Callable[[Any], Any]) -> None:
        self.mapper = mapper

    def __call__(self, batch: pa.RecordBatch) -> Rows:
        """The rows that the function makes of a batch."""
        frame = self.mapper(batch.to_pandas(integer_object_nulls=True))
        names = [str(name) for name in getattr(frame, "columns", ())]
        if not {*names} >= {"key", "value", "timestamp"}:
            found = f"columns {sorted(names)}" if names else type(frame).__name__
            raise StreamsError(
                f"the function given to map_pandas must return a pandas.DataFrame with key, value and timestamp, got {found}"
            )
        # Headers are lists of records, whose types Arrow would have to guess; all else may have become anything.
        headers = pa.array(frame["headers"], _HEADERS_TYPE, from_pandas=True).to_pylist() if "headers" in names else None
        timestamps = pa.array(frame["timestamp"], from_pandas=True).cast(pa.int64()).to_pylist()
        return Rows(_objects(frame["key"]), _objects(frame["value"]), timestamps, headers)


def _objects(series: Any) -> list[Any]:
    """The entries of a pandas series, as Arrow takes them."""
    if series.dtype != object:
        return pa.array(series, from_pandas=True).to_pylist()  # type: ignore[no-any-return]
    return [value if type(value) in _AS_THEY_ARE else pa.array([value], from_pandas=True).to_pylist()[0] for value in series]


def has_pandas() -> bool:
    """Whether pandas is there, which is an extra."""
    return importlib.util.find_spec("pandas") is not None


class MapBatchesProcessor(BatchProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """A record alone is a batch of one; columns are a batch for each run of records whose keys and values have the same types."""

    def __init__(self, mapper: BatchMapper, schema: pa.Schema | None = None) -> None:
        self._mapper = mapper
        self._schema = schema

    def set_up(self, context: OperatorContext) -> None:
        """Keep the way on."""
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        """A batch of one."""
        headers = [record.headers] if record.headers else None
        forward = self._forward
        batch = batch_of([record.key], [record.value], [record.timestamp], headers, self._schema)
        for row in zip(*columns_of(self._mapper(batch))):
            forward(Record(*row))

    def process_batch(self, columns: RecordBatch) -> None:
        """Map batches and forward their rows in order; where that fails, record by record, so that only bad ones are judged."""
        whole = {"key": columns.keys, "value": columns.values}
        inferred = [column for name, column in whole.items() if _given(self._schema, name) is None]
        for start, stop in runs(*inferred) if inferred else ((0, len(columns)),):
            self._process_batch(columns if stop - start == len(columns) else columns.rows(start, stop))

    def _process_batch(self, columns: RecordBatch) -> None:
        try:
            batch = batch_of(columns.keys, columns.values, columns.timestamps, columns.headers, self._schema)
            keys, values, timestamps, headers = columns_of(self._mapper(batch))
        except Exception:  # noqa: BLE001  (each record is tried again by itself)
            row_by_row(self._context, columns, self.process)
            return
        # Which record a row was made of is the function's secret: all of them count as made of the last.
        last = len(columns) - 1 if columns.sources is None else columns.sources[-1]
        made_of = [last] * len(keys)
        some = headers if any(headers) else None
        self._context.forward_batch(RecordBatch(keys, values, timestamps, some, columns.origin, made_of))


def batch_of(
    keys: Sequence[Any],
    values: Sequence[Any],
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None = None,
    schema: pa.Schema | None = None,
) -> pa.RecordBatch:
    """Columns as Arrow has them, in the types of the schema; it infers those that are not there.

    >>> batch_of(["a"], [1], [10]).to_pylist()
    [{'key': 'a', 'value': 1, 'timestamp': 10}]
    """
    columns = {
        "key": array_of("key", keys, _given(schema, "key")),
        "value": array_of("value", values, _given(schema, "value")),
        "timestamp": pa.array(timestamps, pa.int64()),
    }
    if headers is not None and any(headers):
        rows = [[{"key": key, "value": value} for key, value in some] for some in headers]
        columns["headers"] = pa.array(rows, _HEADERS_TYPE)
    return pa.RecordBatch.from_pydict(columns)


def _given(schema: pa.Schema | None, column: str) -> pa.DataType | None:
    return schema.field(column).type if schema is not None and column in schema.names else None


def columns_of(batch: Any) -> tuple[list[Any], list[Any], list[int], list[Headers]]:
    """The columns of a batch: keys, values, timestamps and headers.

    >>> columns_of(pa.RecordBatch.from_pydict({"key": ["a"], "value": [1], "timestamp": [10]}))
    (['a'], [1], [10], [()])
    """
    if isinstance(batch, Rows):
        return batch.keys, batch.values, _checked(batch.timestamps), _headers(batch.headers, len(batch.keys))
    names = set(batch.schema.names) if isinstance(batch, pa.RecordBatch | pa.Table) else set()
    if not names >= {"key", "value", "timestamp"}:
        found = f"columns {sorted(names)}" if names else f"{type(batch).__name__}"
        raise StreamsError(
            f"the function given to map_batches must return a pyarrow.RecordBatch with key, value and timestamp, got {found}"
        )
    timestamps = _checked(batch.column("timestamp").cast(pa.int64()).to_pylist())
    headers = _headers(batch.column("headers").to_pylist() if "headers" in names else None, len(timestamps))
    return batch.column("key").to_pylist(), batch.column("value").to_pylist(), timestamps, headers


def _checked(timestamps: list[int | None]) -> list[int]:
    if None in timestamps:
        raise StreamsError("the function given to map_batches returned a row without a timestamp")
    return timestamps  # type: ignore[return-value]


def _headers(rows: list[Any] | None, count: int) -> list[Headers]:
    if rows is None:
        return [()] * count
    return [tuple((entry["key"], entry["value"]) for entry in row or ()) for row in rows]
