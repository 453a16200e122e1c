"""The inner join of two tables, from either side."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.joins.table_table_join import JoinResult, KTableKTableAbstractJoin, Row
from penstock.state.store import ValueAndTimestamp


class KTableKTableInnerJoin(KTableKTableAbstractJoin):
    """A row of the result exists where both tables have one."""

    def join_change(self, key: Any, change: Change[Any], timestamp: int, row: Row | None) -> JoinResult | None:
        """Nothing changes where the other table has no row."""
        if row is None or row.value is None:
            return None
        joiner = self.joiner
        new = None if change.new_value is None else joiner(key, change.new_value, row.value)
        old = None
        if self.send_old_values and change.old_value is not None:
            old = joiner(key, change.old_value, row.value)
        return JoinResult(new, old, max(timestamp, row.timestamp))

    def join_rows(self, key: Any, row1: Row | None, row2: Row | None) -> Row | None:
        """Both rows or nothing."""
        if row1 is None or row2 is None or row1.value is None or row2.value is None:
            return None
        joined = self.joiner(key, row1.value, row2.value)
        return None if joined is None else ValueAndTimestamp(joined, max(row1.timestamp, row2.timestamp))
