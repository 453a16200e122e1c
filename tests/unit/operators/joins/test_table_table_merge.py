"""Both sides of a join of two tables brought together."""

from __future__ import annotations

from typing import Any

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
