"""What the column faces of operators share: a user's function over all rows, with its failures judged row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

from penstock.columns import Columns
from penstock.operators.functions import IgnoreKey


def each_row(context: Any, columns: Columns, function: Callable[[Any, Any], Any]) -> tuple[list[Any], Columns]:
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


def spread(columns: Columns, keys: list[Any] | None, values: list[Any], counts: list[int]) -> Columns:
    """New rows made of old ones: `counts` tells how many each became; without `keys` they keep their key."""
    return Columns(
        _repeated(columns.keys, counts) if keys is None else keys,
        values,
        _repeated(columns.timestamps, counts),
        None if columns.headers is None else _repeated(columns.headers, counts),
        columns.origin,
        _repeated(range(len(columns)) if columns.sources is None else columns.sources, counts),
    )


def _repeated(column: Iterable[Any], counts: list[int]) -> list[Any]:
    return list(chain.from_iterable(map(repeat, column, counts)))
