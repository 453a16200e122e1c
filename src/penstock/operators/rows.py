"""What operators share that take batches: a user's function over all rows, with its failures judged row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.batches.late_column import LateColumn
from penstock.batches.record_batch import RecordBatch
from penstock.operators.context import OperatorContext
from penstock.operators.functions import IgnoreKey
from penstock.record import Record


def each_row(context: OperatorContext, batch: RecordBatch, function: Callable[[Any, Any], Any]) -> tuple[list[Any], RecordBatch]:
    """`function(key, value)` of each row, and the rows they belong to: all but those that failed and are to be left out."""
    calls = map(function.function, batch.values) if type(function) is IgnoreKey else map(function, batch.keys, batch.values)
    results: list[Any] = []
    failed: list[int] = []
    while len(results) < len(batch):
        try:
            results.extend(calls)  # what came before a failure stays, and the calls go on behind it
            if len(results) < len(batch):
                raise StopIteration  # the function raised it: a list takes it for the end
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            row = len(results)
            context.row_failed(batch, row, exc)
            failed.append(row)
            results.append(None)
    if not failed:
        return results, batch
    kept = sorted(set(range(len(batch))).difference(failed))
    return [results[row] for row in kept], batch.take(kept)


def row_by_row(context: OperatorContext, batch: RecordBatch, process: Callable[[Record[Any, Any]], None]) -> None:
    """`process` of each row, for rows of a batch that an operator processes one by one."""
    before, node = context.record_context, context.current_node
    for row in range(len(batch)):
        context.enter_row(batch, row)
        try:
            process(batch.record(row))
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            context.row_failed(batch, row, exc, node)
    context.set_record_context(before)


def spread(batch: RecordBatch, keys: Sequence[Any] | None, values: Sequence[Any], counts: list[int]) -> RecordBatch:
    """New rows made of old ones: `counts` tells how many each became; without `keys` they keep their key."""
    rows: list[int] = np.repeat(np.arange(len(batch)), counts).tolist()
    old_keys, timestamps, headers, sources = batch.keys, batch.timestamps, batch.headers, batch.sources
    return RecordBatch(
        LateColumn(len(rows), lambda: list(map(old_keys.__getitem__, rows))) if keys is None else keys,
        values,
        list(map(timestamps.__getitem__, rows)),
        None if headers is None else list(map(headers.__getitem__, rows)),
        batch.origin,
        rows if sources is None else list(map(sources.__getitem__, rows)),
    )
