"""What the column faces of aggregations over windows and sessions share: rows without keys, and results on close.

With results on close, what has closed is looked for after the first record of a turn, as with single records: the clock does not
move within a turn, and it is looked for once in an interval of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.columns.columns import Columns
from penstock.columns.operator import ColumnProcessor
from penstock.operators.context import OperatorContext
from penstock.operators.skipped import skip_record
from penstock.operators.time_tracker import EmitThrottle
from penstock.record import Record


class ColumnsOnClose(ColumnProcessor):
    """Processes single records while results on close are due."""

    _context: OperatorContext
    _emit_final: bool
    _throttle: EmitThrottle
    process: Callable[[Record[Any, Any]], None]
    _emitting: tuple[Columns, int] | None = None
    """The row that results on close come behind, while they are looked for."""

    def _rest(self, columns: Columns, needs_value: bool = False) -> Columns:
        """The rows with a key, and where it is needed a value, that are left when results on close have been looked for."""
        first = self._until_emitted(columns) if self._emit_final else 0
        if first:
            columns = columns.rows(first, len(columns))
        if None not in columns.keys and not (needs_value and None in columns.values):
            return columns
        whole = [key is not None and not (needs_value and value is None) for key, value in zip(columns.keys, columns.values)]
        for row, is_whole in enumerate(whole):
            if not is_whole:
                self._context.enter_row(columns, row)
                skip_record(self._context, "null key or value" if needs_value else "null key")
        return columns.take([row for row, is_whole in enumerate(whole) if is_whole])

    def _until_emitted(self, columns: Columns) -> int:
        """Process records one by one while what has closed is due to be looked for; returns how many."""
        context, first = self._context, 0
        node = context.current_node
        while first < len(columns) and self._throttle.is_due(context.current_system_time_ms()):
            context.enter_row(columns, first)
            self._emitting = columns, first
            try:
                self.process(columns.record(first))
            except Exception as exc:  # noqa: BLE001  (the handler judges whatever a user's function raises)
                context.row_failed(columns, first, exc, node)
            finally:
                self._emitting = None
            first += 1
        return first

    def _forward_closed(self, keys: list[Any], changes: list[Any], times: list[int], record: Record[Any, Any]) -> None:
        """Forward results on close at once, behind the row that is being processed."""
        assert self._emitting is not None
        columns, row = self._emitting
        source = row if columns.sources is None else columns.sources[row]
        headers = [record.headers] * len(keys) if record.headers else None
        self._context.forward_columns(Columns(keys, changes, times, headers, columns.origin, [source] * len(keys)))
