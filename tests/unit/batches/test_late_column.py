"""A late column makes its list when the first entry is read, and once."""

from __future__ import annotations

from penstock.batches.late_column import LateColumn


def test_should_make_a_late_list_once() -> None:
    made: list[int] = []
    column = LateColumn(2, lambda: made.append(1) or ["x", "y"])  # type: ignore[func-returns-value]
    assert (len(column), made) == (2, [])
    assert (column[0], column[-1], column[:1], "y" in column, list(column), made) == ("x", "y", ["x"], True, ["x", "y"], [1])
