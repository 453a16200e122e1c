"""The changes of a table as a column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from penstock.batches.late_column import LateColumn
from penstock.change import Change


class ChangeColumn(LateColumn):
    """Changes of a table, each made when somebody looks at them; who only wants the new values has them without."""

    __slots__ = ("_old_values", "new_values")

    def __init__(self, new_values: Sequence[Any], old_values: Sequence[Any] | None) -> None:
        super().__init__(len(new_values), self._changes)
        self.new_values = new_values
        self._old_values = old_values

    @property
    def has_no_old_values(self) -> bool:
        """Whether nobody is shown what the rows were."""
        return self._old_values is None

    def _changes(self) -> list[Any]:
        return list(map(Change, self.new_values, repeat(None) if self._old_values is None else self._old_values))
