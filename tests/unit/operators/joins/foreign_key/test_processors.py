from __future__ import annotations

from typing import Any

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.hashing import murmur3_hash128
from penstock.operators import (
    CombinedKey,
    CombinedKeySchema,
    ForeignTableJoinProcessorSupplier,
    ResponseJoinProcessorSupplier,
    SubscriptionJoinProcessorSupplier,
    SubscriptionReceiveProcessorSupplier,
    SubscriptionResponseWrapper,
    SubscriptionSendProcessorSupplier,
    SubscriptionWrapper,
)
from penstock.operators.joins.foreign_key.extractor import from_bi_function, from_function
from penstock.operators.joins.foreign_key.subscription_wrapper import Instruction
from penstock.serdes.serde import Serdes
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_timestamp_headers import ValueTimestampHeaders
from tests.unit.operators.operator_kit import Entries, FakeContext, FakeTable, Runner

DELETE_SILENTLY = Instruction.DELETE_KEY_NO_PROPAGATE
DELETE = Instruction.DELETE_KEY_AND_PROPAGATE
ANSWER_ALWAYS = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


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


class _BytesStore:
    def __init__(self) -> None:
        self.rows: dict[bytes, Any] = {}

    def get(self, key: bytes) -> Any:
        return self.rows.get(key)

    def put(self, key: bytes, value: Any) -> None:
        self.rows[key] = value

    def delete(self, key: bytes) -> Any:
        return self.rows.pop(key, None)

    def range(self, key_from: bytes, key_to: bytes) -> Entries:
        return Entries([(key, self.rows[key]) for key in sorted(self.rows) if key_from <= key <= key_to])


def _schema() -> CombinedKeySchema[str, str]:
    return CombinedKeySchema("fk", Serdes.string(), "pk", Serdes.string())


def _wrapper(instruction: Instruction, primary_key: str = "pk", version: int = 1) -> SubscriptionWrapper:
    return SubscriptionWrapper((1, 2), instruction, primary_key, version, 3)


def test_should_keep_and_remove_subscriptions() -> None:
    store = _BytesStore()
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", _schema()), FakeContext({"store": store}))
    subscribe, unsubscribe = _wrapper(ANSWER_ALWAYS), _wrapper(DELETE)

    new = ValueTimestampHeaders(subscribe, 5)
    assert runner.pipe("a", subscribe, 5) == [(CombinedKey("a", "pk"), Change(new, None), 5)]
    assert store.rows == {b"\0\0\0\1apk": new}
    assert runner.pipe("a", unsubscribe, 6) == [(CombinedKey("a", "pk"), Change(ValueTimestampHeaders(unsubscribe, 6), new), 6)]
    assert store.rows == {}


def test_should_pass_a_null_foreign_key_on_without_keeping_it() -> None:
    store = _BytesStore()
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", _schema()), FakeContext({"store": store}))
    wrapper = _wrapper(ANSWER_ALWAYS)

    assert runner.pipe(None, wrapper, 5) == [(CombinedKey(None, "pk"), Change(ValueTimestampHeaders(wrapper, 5), None), 5)]
    assert runner.pipe(None, _wrapper(ANSWER_IF_FOUND), 5) == []
    assert runner.context.dropped == ["null foreign key"]
    assert store.rows == {}


def test_should_refuse_a_subscription_of_a_newer_version() -> None:
    runner = Runner(SubscriptionReceiveProcessorSupplier("store", _schema()), FakeContext({"store": _BytesStore()}))

    with pytest.raises(StreamsError, match="version 2"):
        runner.pipe("a", _wrapper(ANSWER_ALWAYS, version=2), 5)


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

    output = runner.pipe(CombinedKey("a", "pk"), Change(ValueAndTimestamp(_wrapper(instruction), 5), None), 5)
    if expected is None:
        assert output == []
    else:
        value, timestamp = expected
        assert output == [("pk", SubscriptionResponseWrapper((1, 2), value, 3), timestamp)]


def test_should_answer_null_for_a_null_foreign_key() -> None:
    runner = Runner(SubscriptionJoinProcessorSupplier(FakeTable()), FakeContext())

    output = runner.pipe(CombinedKey(None, "pk"), Change(ValueAndTimestamp(_wrapper(ANSWER_ALWAYS), 5), None), 5)
    assert output == [("pk", SubscriptionResponseWrapper((1, 2), None, 3), 5)]


def _foreign_table(versioned: bool = False) -> Runner:
    store, schema = _BytesStore(), _schema()
    for foreign_key, primary_key in (("a", "p1"), ("a", "p2"), ("ab", "p3"), ("b", "p4")):
        store.put(schema.to_bytes(foreign_key, primary_key), ValueAndTimestamp(_wrapper(ANSWER_ALWAYS, primary_key), 1))
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


def test_should_extract_from_the_key_as_well() -> None:
    assert from_bi_function(lambda key, value: key + value)("a", "b") == "ab"
