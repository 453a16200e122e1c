"""A changed row of the foreign table is told to all who subscribed to it."""

from __future__ import annotations

from penstock.change import Change
from penstock.operators import (
    ForeignTableJoinProcessorSupplier,
    SubscriptionResponseWrapper,
)
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.joins.foreign_key.kit import (
    ANSWER_ALWAYS,
    BytesStore,
    schema_of_strings,
    wrapped,
)
from tests.unit.operators.operator_kit import FakeContext, Runner


def _foreign_table(versioned: bool = False) -> Runner:
    store, schema = BytesStore(), schema_of_strings()
    for foreign_key, primary_key in (("a", "p1"), ("a", "p2"), ("ab", "p3"), ("b", "p4")):
        store.put(schema.to_bytes(foreign_key, primary_key), ValueAndTimestamp(wrapped(ANSWER_ALWAYS, primary_key), 1))
    supplier = ForeignTableJoinProcessorSupplier("store", schema)
    supplier.set_use_versioned_semantics(versioned)
    return Runner(supplier, FakeContext({"store": store}))


def test_should_answer_everyone_subscribed_to_a_changed_row() -> None:
    runner = _foreign_table()

    assert runner.pipe("a", Change("new", "old"), 7) == [
        ("p1", SubscriptionResponseWrapper((1, 2), "new", 3), 7),
        ("p2", SubscriptionResponseWrapper((1, 2), "new", 3), 7),
    ]
    assert runner.pipe("c", Change("new", None), 7) == []
    assert runner.pipe(None, Change("new", None), 7) == []
    assert runner.context.dropped == ["null key"]


def test_should_not_answer_for_an_out_of_order_change_of_a_versioned_table() -> None:
    runner = _foreign_table(versioned=True)

    assert runner.pipe("a", Change("new", None, is_latest=False), 7) == []
    assert runner.context.dropped == [""]
