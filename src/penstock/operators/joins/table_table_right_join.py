"""The right side of a left join of two tables: changes of the right table meet rows of the left one."""

from __future__ import annotations

from typing import Any

from penstock.change import Change
from penstock.operators.joins.table_table_join import JoinResult, KTableKTableAbstractJoin, Row, value_of
from penstock.state.store import ValueAndTimestamp


class KTableKTableRightJoin(KTableKTableAbstractJoin):
    """A row of the result exists where the other table has one; the joiner has the values the other way round."""

    def join_change(self, key: Any, change: Change[Any], timestamp: int, row: Row | None) -> JoinResult | None:
        """This table's value may be None."""
        if row is None or row.value is None:
            return None
        joiner = self.joiner
        new = joiner(key, change.new_value, row.value)
        old = joiner(key, change.old_value, row.value) if self.send_old_values else None
        return JoinResult(new, old, max(timestamp, row.timestamp))

    def join_rows(self, key: Any, row1: Row | None, row2: Row | None) -> Row | None:
        """The other table's row decides."""
        if row2 is None or row2.value is None:
            return None
        joined = self.joiner(key, value_of(row1), row2.value)
        if joined is None:
            return None
        return ValueAndTimestamp(joined, row2.timestamp if row1 is None else max(row1.timestamp, row2.timestamp))
