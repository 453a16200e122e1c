"""What the column faces of operators share: a user's function over all rows, with its failures judged row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.columns.columns import Columns
from penstock.columns.late import LateColumn
from penstock.operators.context import OperatorContext
from penstock.operators.functions import IgnoreKey
from penstock.record import Record


def each_row(context: OperatorContext, columns: Columns, function: Callable[[Any, Any], Any]) -> tuple[list[Any], Columns]:
    """`function(key, value)` of each row, and the rows they belong to: all but those that failed and are to be left out."""
    calls = map(function.function, columns.values) if type(function) is IgnoreKey else map(function, columns.keys, columns.values)
    results: list[Any] = []
    failed: list[int] = []
    while len(results) < len(columns):
        try:
            results.extend(calls)  # what came before a failure stays, and the calls go on behind it
            if len(results) < len(columns):
                raise StopIteration  # the function raised it: a list takes it for the end
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            row = len(results)
            context.row_failed(columns, row, exc)
            failed.append(row)
            results.append(None)
    if not failed:
        return results, columns
    kept = sorted(set(range(len(columns))).difference(failed))
    return [results[row] for row in kept], columns.take(kept)


def row_by_row(context: OperatorContext, columns: Columns, process: Callable[[Record[Any, Any]], None]) -> None:
    """`process` of each row, for what a face for columns leaves to the one for records."""
    before, node = context.record_context, context.current_node
    for row in range(len(columns)):
        context.enter_row(columns, row)
        try:
            process(columns.record(row))
        except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
            context.row_failed(columns, row, exc, node)
    context.set_record_context(before)


def spread(columns: Columns, keys: Sequence[Any] | None, values: Sequence[Any], counts: list[int]) -> Columns:
    """New rows made of old ones: `counts` tells how many each became; without `keys` they keep their key."""
    rows: list[int] = np.repeat(np.arange(len(columns)), counts).tolist()
    old_keys, timestamps, headers, sources = columns.keys, columns.timestamps, columns.headers, columns.sources
    return Columns(
        LateColumn(len(rows), lambda: list(map(old_keys.__getitem__, rows))) if keys is None else keys,
        values,
        list(map(timestamps.__getitem__, rows)),
        None if headers is None else list(map(headers.__getitem__, rows)),
        columns.origin,
        rows if sources is None else list(map(sources.__getitem__, rows)),
    )
