"""Joins of two tables: inner, left, right and outer side by side, since what differs is the table of cases."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.change import Change
from penstock.operators import (
    KTableKTableInnerJoin,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner

INNER, LEFT, RIGHT, OUTER = KTableKTableInnerJoin, KTableKTableLeftJoin, KTableKTableRightJoin, KTableKTableOuterJoin


def _join(key: Any, one: Any, two: Any) -> str:
    return f"{one}+{two}"


def _runner(kind: Any, row: ValueAndTimestamp[Any] | None = None, old_values: bool = True) -> Runner:
    this, other = FakeTable("this"), FakeTable("other")
    if row is not None:
        other.rows = {"k": row}
    supplier = kind(this, other, _join)
    if old_values:
        supplier.enable_sending_old_values(True)
    return Runner(supplier, FakeContext())


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        (INNER, Change("n", "o"), Change("n+x", "o+x")),
        (INNER, Change(None, "o"), Change(None, "o+x")),
        (INNER, Change(None, None), Change(None, None)),
        (LEFT, Change("n", None), Change("n+x", None)),
        (LEFT, Change(None, None), Change(None, None)),
        (RIGHT, Change("n", "o"), Change("n+x", "o+x")),
        (RIGHT, Change(None, "o"), Change("None+x", "o+x")),
        (OUTER, Change("n", None), Change("n+x", "None+x")),
        (OUTER, Change(None, "o"), Change("None+x", "o+x")),
    ],
)
def test_should_join_a_change_with_the_other_row(kind: Any, change: Change[str], expected: Change[str]) -> None:
    assert _runner(kind, ValueAndTimestamp("x", 9)).pipe("k", change, 5) == [("k", expected, 9)]


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        (INNER, Change("n", "o"), None),
        (LEFT, Change("n", "o"), Change("n+None", "o+None")),
        (LEFT, Change(None, "o"), Change(None, "o+None")),
        (LEFT, Change(None, None), None),
        (RIGHT, Change("n", "o"), None),
        (OUTER, Change("n", "o"), Change("n+None", "o+None")),
        (OUTER, Change(None, "o"), Change(None, "o+None")),
        (OUTER, Change(None, None), None),
    ],
)
def test_should_join_a_change_without_the_other_row(kind: Any, change: Change[str], expected: Change[str] | None) -> None:
    assert _runner(kind).pipe("k", change, 5) == ([] if expected is None else [("k", expected, 5)])


@pytest.mark.parametrize("kind", [INNER, LEFT, RIGHT, OUTER])
def test_should_send_old_values_only_when_asked(kind: Any) -> None:
    runner = _runner(kind, ValueAndTimestamp("x", 1), old_values=False)

    assert runner.pipe("k", Change("n", "o"), 5) == [("k", Change("n+x", None), 5)]


@pytest.mark.parametrize("kind", [INNER, LEFT, RIGHT, OUTER])
def test_should_drop_null_keys(kind: Any) -> None:
    runner = _runner(kind)

    assert runner.pipe(None, Change("n", None), 5) == []
    assert runner.context.dropped == ["null key"]


@pytest.mark.parametrize("kind", [INNER, LEFT, RIGHT, OUTER])
def test_should_drop_changes_older_than_a_versioned_tables_row(kind: Any) -> None:
    this, other = FakeTable("this"), FakeTable("other")
    other.rows = {"k": ValueAndTimestamp("x", 1)}
    supplier = kind(this, other, _join)
    assert len(Runner(supplier, FakeContext()).pipe("k", Change("n", None, is_latest=False), 5)) == 1
    supplier.set_use_versioned_semantics(True)
    runner = Runner(supplier, FakeContext())

    assert runner.pipe("k", Change("n", None, is_latest=False), 5) == []
    assert runner.context.dropped == [""]
    assert supplier.join_this_parent_node_name == "this"


@pytest.mark.parametrize(
    ("kind", "one", "two", "expected"),
    [
        (INNER, "a", "b", ("a+b", 7)),
        (INNER, "a", None, None),
        (LEFT, "a", "b", ("a+b", 7)),
        (LEFT, "a", None, ("a+None", 7)),
        (LEFT, None, "b", None),
        (RIGHT, "a", None, None),
        (RIGHT, None, "b", ("None+b", 3)),
        (OUTER, None, "b", ("None+b", 3)),
        (OUTER, "a", None, ("a+None", 7)),
        (OUTER, None, None, None),
    ],
)
def test_should_look_up_the_joined_row(kind: Any, one: str | None, two: str | None, expected: tuple[str, int] | None) -> None:
    this, other = FakeTable("this"), FakeTable("other")
    if one is not None:
        this.rows = {"k": ValueAndTimestamp(one, 7)}
    if two is not None:
        other.rows = {"k": ValueAndTimestamp(two, 3)}
    view = kind(this, other, _join).view()
    getter = view.get()
    getter.init(FakeContext())

    row = getter.get("k")
    assert (None if row is None else (row.value, row.timestamp)) == expected
    assert view.store_names == ("this-store", "other-store")
    assert not getter.is_versioned
