"""The outer join of two tables, from either side."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.joins.table_table_join import JoinResult, KTableKTableAbstractJoin, Row, value_of
from penstock.record import NO_TIMESTAMP
from penstock.state.store import ValueAndTimestamp


class KTableKTableOuterJoin(KTableKTableAbstractJoin):
    """A row of the result exists where either table has one."""

    def join_change(self, key: Any, change: Change[Any], timestamp: int, row: Row | None) -> JoinResult | None:
        """Either value may be None, but not both."""
        joiner = self.joiner
        other = value_of(row)
        if row is None or other is None:
            if change.new_value is None and change.old_value is None:
                return None
        else:
            timestamp = max(timestamp, row.timestamp)
        new = joiner(key, change.new_value, other) if other is not None or change.new_value is not None else None
        old = None
        if self.send_old_values and (other is not None or change.old_value is not None):
            old = joiner(key, change.old_value, other)
        return JoinResult(new, old, timestamp)

    def join_rows(self, key: Any, row1: Row | None, row2: Row | None) -> Row | None:
        """Either row, or both."""
        value1, value2 = value_of(row1), value_of(row2)
        joined = None if value1 is None and value2 is None else self.joiner(key, value1, value2)
        if joined is None:
            return None
        timestamp1 = NO_TIMESTAMP if row1 is None else row1.timestamp
        timestamp2 = NO_TIMESTAMP if row2 is None else row2.timestamp
        return ValueAndTimestamp(joined, max(timestamp1, timestamp2))
