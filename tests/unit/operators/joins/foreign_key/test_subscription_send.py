"""Left rows subscribe to their foreign keys."""

from __future__ import annotations

import pytest

from penstock.change import Change
from penstock.hashing import murmur3_hash128
from penstock.operators import (
    SubscriptionSendProcessorSupplier,
)
from penstock.operators.joins.foreign_key.extractor import from_function
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.serdes.serde import Serdes
from tests.unit.operators.joins.foreign_key.kit import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE,
    DELETE_SILENTLY,
)
from tests.unit.operators.operator_kit import FakeContext, Runner


def _send(left_join: bool, versioned: bool = False) -> Runner:
    # The first letter of a value is its foreign key; "-" stands for none.
    supplier = SubscriptionSendProcessorSupplier(
        from_function(lambda value: None if value[0] == "-" else value[0]),
        "fk",
        "vh",
        Serdes.string(),
        Serdes.string().serializer,
        left_join,
    )
    supplier.set_use_versioned_semantics(versioned)
    return Runner(supplier, FakeContext())


def _sent(runner: Runner, old: str | None, new: str | None) -> list[tuple[str | None, Instruction]]:
    output = runner.pipe("pk", Change(new, old), 5)
    expected_hash = None if new is None else murmur3_hash128(new.encode())
    assert all(wrapper.hash == expected_hash and wrapper.primary_key == "pk" for _, wrapper, _ in output)
    assert all(wrapper.version == 1 and wrapper.primary_partition == 0 for _, wrapper, _ in output)
    return [(key, wrapper.instruction) for key, wrapper, _ in output]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "a1", [("a", ANSWER_IF_FOUND)]),
        ("a1", "a2", [("a", ANSWER_IF_FOUND)]),
        ("a1", "b2", [("a", DELETE_SILENTLY), ("b", ANSWER_ALWAYS)]),
        ("a1", "-2", [("a", DELETE)]),
        (None, "-1", []),
        ("-1", "a1", [("a", ANSWER_IF_FOUND)]),
        ("a1", None, [("a", DELETE)]),
        ("-1", None, []),
        (None, None, []),
    ],
)
def test_should_send_subscriptions_of_an_inner_join(
    old: str | None, new: str | None, expected: list[tuple[str | None, Instruction]]
) -> None:
    runner = _send(left_join=False)

    assert _sent(runner, old, new) == expected
    assert runner.context.dropped == (["null foreign key"] if new == "-1" or new == "-2" else [])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "a1", [("a", ANSWER_ALWAYS)]),
        ("a1", "a2", [("a", ANSWER_ALWAYS)]),
        ("a1", "b2", [("a", DELETE_SILENTLY), ("b", ANSWER_ALWAYS)]),
        ("a1", "-2", [("a", DELETE_SILENTLY), (None, ANSWER_ALWAYS)]),
        (None, "-1", [(None, ANSWER_ALWAYS)]),
        ("a1", None, [("a", DELETE_SILENTLY), (None, ANSWER_ALWAYS)]),
        ("-1", None, [(None, ANSWER_ALWAYS)]),
        (None, None, []),
    ],
)
def test_should_send_subscriptions_of_a_left_join(
    old: str | None, new: str | None, expected: list[tuple[str | None, Instruction]]
) -> None:
    assert _sent(_send(left_join=True), old, new) == expected


def test_should_send_nothing_for_an_out_of_order_change_of_a_versioned_table() -> None:
    runner = _send(left_join=True, versioned=True)

    assert runner.pipe("pk", Change("a", None, is_latest=False), 5) == []
    assert runner.context.dropped == [""]
