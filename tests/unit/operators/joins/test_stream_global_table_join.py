"""The join of a stream with a global table."""

from __future__ import annotations

from typing import Any

from penstock.operators import KStreamGlobalKTableJoin
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner


def _join(key: Any, stream: Any, table: Any) -> str:
    return f"{stream}+{table}"


def test_should_join_with_a_global_table_by_a_computed_key() -> None:
    table = FakeTable()
    table.rows = {"A": ValueAndTimestamp("row", 100)}
    inner = Runner(KStreamGlobalKTableJoin(table, _join, lambda key, value: value and value.upper(), False), FakeContext())
    left = Runner(KStreamGlobalKTableJoin(table, _join, lambda key, value: None, True), FakeContext())

    assert inner.pipe(None, "a", 5) == [(None, "a+row", 5)]
    assert inner.pipe("k", "b", 5) == []
    assert inner.pipe("k", None, 5) == []
    assert inner.context.dropped == ["null join key or value"]
    assert left.pipe("k", "a", 5) == [("k", "a+None", 5)]
