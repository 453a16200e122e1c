"""Answers are joined with the rows that asked."""

from __future__ import annotations

import pytest

from penstock.hashing import murmur3_hash128
from penstock.operators import (
    ResponseJoinProcessorSupplier,
    SubscriptionResponseWrapper,
)
from penstock.serdes.serde import Serdes
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner


def _response_join(left_join: bool, row: str | None) -> Runner:
    table = FakeTable()
    if row is not None:
        table.rows = {"pk": ValueAndTimestamp(row, 1)}
    supplier = ResponseJoinProcessorSupplier(table, Serdes.string(), "vh", lambda key, left, right: f"{left}+{right}", left_join)
    return Runner(supplier, FakeContext())


@pytest.mark.parametrize(
    ("left_join", "row", "foreign", "expected"),
    [
        (False, "l", "r", "l+r"),
        (False, "l", None, None),
        (True, "l", None, "l+None"),
        (True, None, None, None),
        (False, None, None, None),
        (True, None, "r", "None+r"),
    ],
)
def test_should_join_an_answer_with_the_row_it_was_asked_for(
    left_join: bool, row: str | None, foreign: str | None, expected: str | None
) -> None:
    row_hash = None if row is None else murmur3_hash128(row.encode())
    runner = _response_join(left_join, row)

    assert runner.pipe("pk", SubscriptionResponseWrapper(row_hash, foreign), 5) == [("pk", expected, 5)]


def test_should_drop_an_answer_to_an_earlier_value_of_the_row() -> None:
    runner = _response_join(False, "now")

    assert runner.pipe("pk", SubscriptionResponseWrapper(murmur3_hash128(b"before"), "r"), 5) == []
    assert runner.context.dropped == [""]
