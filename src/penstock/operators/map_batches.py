"""KStream.map_batches: a function from one Arrow record batch to another, whole batches at a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.columns.columns import Columns
from penstock.columns.operator import ColumnProcessor, Operator
from penstock.errors import StreamsError
from penstock.operators.context import OperatorContext, OperatorProcessor
from penstock.record import Headers, Record

BatchMapper = Callable[[pa.RecordBatch], pa.RecordBatch]

_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class KStreamMapBatches(Operator):
    """Supplies processors that hand records to the function as columns and forward the rows of what it returns.

    The columns are `key`, `value` and `timestamp`, and `headers` where a record has some; the result needs the first three
    in any order, with any number of rows. How records are cut into batches is open: a single record is a batch of one.
    """

    def __init__(self, mapper: BatchMapper) -> None:
        self.mapper = mapper

    def __call__(self) -> MapBatchesProcessor:
        """Each task gets a processor of its own."""
        return MapBatchesProcessor(self.mapper)


class PandasMapper:
    """A function of pandas' data frames as one of Arrow's batches.

    Numbers that may be missing stay whole numbers, as objects; what pandas takes for missing (None, NaN) is null.
    """

    def __init__(self, mapper: Callable[[Any], Any]) -> None:
        self.mapper = mapper

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows that the function makes of a batch."""
        frame = self.mapper(batch.to_pandas(integer_object_nulls=True))
        names = [str(name) for name in getattr(frame, "columns", ())]
        if not {*names} >= {"key", "value", "timestamp"}:
            found = f"columns {sorted(names)}" if names else type(frame).__name__
            raise StreamsError(
                f"the function given to map_pandas must return a pandas.DataFrame with key, value and timestamp, got {found}"
            )
        # Headers are lists of records, whose types Arrow would have to guess; all else may have become anything.
        types = {"headers": _HEADERS_TYPE}
        return pa.Table.from_pydict({name: pa.array(frame[name], types.get(name), from_pandas=True) for name in names})


def has_pandas() -> bool:
    """Whether pandas is there, which is an extra."""
    return importlib.util.find_spec("pandas") is not None


class MapBatchesProcessor(ColumnProcessor, OperatorProcessor[Any, Any, Any, Any]):
    """A record alone is a batch of one; columns are a batch as they are."""

    def __init__(self, mapper: BatchMapper) -> None:
        self._mapper = mapper

    def set_up(self, context: OperatorContext) -> None:
        """Keep the way on."""
        self._context = context
        self._forward = context.forward

    def process(self, record: Record[Any, Any]) -> None:
        """A batch of one."""
        headers = [record.headers] if record.headers else None
        forward = self._forward
        for row in zip(*columns_of(self._mapper(batch_of([record.key], [record.value], [record.timestamp], headers)))):
            forward(Record(*row))

    def process_columns(self, columns: Columns) -> None:
        """Map a batch and forward its rows in order; where that fails, record by record, so that only bad ones are judged."""
        try:
            batch = batch_of(columns.keys, columns.values, columns.timestamps, columns.headers)
            keys, values, timestamps, headers = columns_of(self._mapper(batch))
        except Exception:  # noqa: BLE001  (each record is tried again by itself)
            self._process_rows(columns)
            return
        # Which record a row was made of is the function's secret: all of them count as made of the last.
        last = len(columns) - 1 if columns.sources is None else columns.sources[-1]
        made_of = [last] * len(keys)
        some = headers if any(headers) else None
        self._context.forward_columns(Columns(keys, values, timestamps, some, columns.origin, made_of))

    def _process_rows(self, columns: Columns) -> None:
        node = self._context.current_node
        for row in range(len(columns)):
            self._context.record_context = columns.context(row)
            try:
                self.process(columns.record(row))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                self._context.current_node = node
                self._context.row_failed(columns, row, exc)


def batch_of(
    keys: Sequence[Any], values: Sequence[Any], timestamps: Sequence[int], headers: Sequence[Headers] | None = None
) -> pa.RecordBatch:
    """Columns as Arrow has them; it infers the types.

    >>> batch_of(["a"], [1], [10]).to_pylist()
    [{'key': 'a', 'value': 1, 'timestamp': 10}]
    """
    columns = {
        "key": _column("key", keys),
        "value": _column("value", values),
        "timestamp": pa.array(timestamps, pa.int64()),
    }
    if headers is not None and any(headers):
        rows = [[{"key": key, "value": value} for key, value in some] for some in headers]
        columns["headers"] = pa.array(rows, _HEADERS_TYPE)
    return pa.RecordBatch.from_pydict(columns)


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as exc:
        raise StreamsError(
            f"map_batches cannot put the {name}s of these records into an Arrow column: {exc}. They must be of one type that "
            "Arrow knows, such as text, numbers, bytes, lists or dicts; use map_values before it, or map instead of it"
        ) from exc


def columns_of(batch: Any) -> tuple[list[Any], list[Any], list[int], list[Headers]]:
    """The columns of a batch: keys, values, timestamps and headers.

    >>> columns_of(pa.RecordBatch.from_pydict({"key": ["a"], "value": [1], "timestamp": [10]}))
    (['a'], [1], [10], [()])
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
    return batch.column("key").to_pylist(), batch.column("value").to_pylist(), timestamps, headers
