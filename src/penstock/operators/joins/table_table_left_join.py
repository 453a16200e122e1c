"""The left side of a left join of two tables."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.joins.table_table_join import JoinResult, KTableKTableAbstractJoin, Row, value_of
from penstock.state.store import ValueAndTimestamp


class KTableKTableLeftJoin(KTableKTableAbstractJoin):
    """A row of the result exists where this table has one."""

    def join_change(self, key: Any, change: Change[Any], timestamp: int, row: Row | None) -> JoinResult | None:
        """The other table's value may be None."""
        joiner = self.joiner
        other = value_of(row)
        if row is None or other is None:
            if change.new_value is None and change.old_value is None:
                return None
        else:
            timestamp = max(timestamp, row.timestamp)
        new = None if change.new_value is None else joiner(key, change.new_value, other)
        old = None
        if self.send_old_values and change.old_value is not None:
            old = joiner(key, change.old_value, other)
        return JoinResult(new, old, timestamp)

    def join_rows(self, key: Any, row1: Row | None, row2: Row | None) -> Row | None:
        """This table's row decides."""
        if row1 is None or row1.value is None:
            return None
        joined = self.joiner(key, row1.value, value_of(row2))
        if joined is None:
            return None
        return ValueAndTimestamp(joined, row1.timestamp if row2 is None else max(row1.timestamp, row2.timestamp))
