from __future__ import annotations

from typing import Any

import pytest

from penstock.change import Change
from penstock.operators import (
    KTableKTableInnerJoin,
    KTableKTableJoinMerger,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)
from penstock.state.store import KeyValueStore, ValueAndTimestamp
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


def _merger(queryable_name: str | None = None) -> KTableKTableJoinMerger:
    this, other = FakeTable("this"), FakeTable("other")
    other.rows = {"k": ValueAndTimestamp("x", 1)}
    this.rows = {"k": ValueAndTimestamp("y", 1)}
    return KTableKTableJoinMerger(INNER(this, other, _join), INNER(other, this, _join), queryable_name)


def test_should_pass_changes_on_without_a_store() -> None:
    merger = _merger()
    assert Runner(merger, FakeContext()).pipe("k", Change("n", "o"), 5) == [("k", Change("n", None), 5)]
    merger.enable_sending_old_values(True)
    assert Runner(merger, FakeContext()).pipe("k", Change("n", "o"), 5) == [("k", Change("n", "o"), 5)]

    view = merger.view()
    getter = view.get()
    getter.init(FakeContext())
    assert getter.get("k") == ValueAndTimestamp("y+x", 1)
    assert view.store_names == ("this-store", "other-store")


class _Store(KeyValueStore[Any, Any]):
    name = "result"
    persistent = False
    is_open = True

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self.rows.get(key)

    def put(self, key: Any, value: Any) -> None:
        self.rows[key] = value

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        return False

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    init = close = put_if_absent = put_all = delete = range = reverse_range = _unused
    all = reverse_all = prefix_scan = approximate_num_entries = _unused


def test_should_keep_the_result_in_its_store() -> None:
    store = _Store()
    merger = _merger("result")
    runner = Runner(merger, FakeContext({"result": store}))

    assert runner.pipe("k", Change("n", "o"), 5) == [("k", Change("n", None), 5)]
    assert store.rows == {"k": ValueAndTimestamp("n", 5)}
    assert merger.view().store_names == ("result",)
