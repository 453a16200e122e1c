"""A subscription is answered with the row it asks for."""

from __future__ import annotations

import pytest

from penstock.change import Change
from penstock.operators import (
    CombinedKey,
    SubscriptionJoinProcessorSupplier,
    SubscriptionResponseWrapper,
)
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.joins.foreign_key.kit import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE,
    DELETE_SILENTLY,
    wrapped,
)
from tests.unit.operators.operator_kit import FakeContext, FakeTable, Runner


@pytest.mark.parametrize(
    ("instruction", "row", "expected"),
    [
        (ANSWER_ALWAYS, ValueAndTimestamp("r", 9), ("r", 9)),
        (ANSWER_ALWAYS, None, (None, 5)),
        (ANSWER_IF_FOUND, ValueAndTimestamp("r", 9), ("r", 9)),
        (ANSWER_IF_FOUND, None, None),
        (DELETE, ValueAndTimestamp("r", 9), (None, 9)),
        (DELETE, None, (None, 5)),
        (DELETE_SILENTLY, ValueAndTimestamp("r", 9), None),
    ],
)
def test_should_answer_as_the_instruction_says(
    instruction: Instruction, row: ValueAndTimestamp[str] | None, expected: tuple[str | None, int] | None
) -> None:
    table = FakeTable()
    if row is not None:
        table.rows = {"a": row}
    runner = Runner(SubscriptionJoinProcessorSupplier(table), FakeContext())

    output = runner.pipe(CombinedKey("a", "pk"), Change(ValueAndTimestamp(wrapped(instruction), 5), None), 5)
    if expected is None:
        assert output == []
    else:
        value, timestamp = expected
        assert output == [("pk", SubscriptionResponseWrapper((1, 2), value, 3), timestamp)]


def test_should_answer_null_for_a_null_foreign_key() -> None:
    runner = Runner(SubscriptionJoinProcessorSupplier(FakeTable()), FakeContext())

    output = runner.pipe(CombinedKey(None, "pk"), Change(ValueAndTimestamp(wrapped(ANSWER_ALWAYS), 5), None), 5)
    assert output == [("pk", SubscriptionResponseWrapper((1, 2), None, 3), 5)]
