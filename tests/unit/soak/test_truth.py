"""The verifier tells apart what can be wrong: faults are planted into what an undisturbed application wrote."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.harness.kafka import Message
from tests.soak.applications import APPLICATIONS, Inputs
from tests.soak.truth import Counting, Kind, Latest, Listed, Parts, Result, Rule, Steps, differing, findings, hanging, uncommitted


def messages(*values: int | bytes | None, times: Sequence[int] | None = None) -> list[Message]:
    raw = [v.to_bytes(8, "big") if isinstance(v, int) else v for v in values]
    return [Message(b"k", value, times[i] if times else i) for i, value in enumerate(raw)]


def kinds(rule: Rule, found: Sequence[Message], exactly_once: bool = True) -> list[Kind]:
    return [finding.kind for finding in findings("app", {b"k": rule}, found, exactly_once)]


IN_ORDER = Listed([Result(b"a", 0), Result(b"b", 1), Result(b"c", 2)])
ANY_ORDER = Listed([Result(b"a", 0), Result(b"b", 1), Result(b"b", 2)], ordered=False)
TO_THREE = Counting(3, last_time=2)
WINDOW = Counting(3, times=[0, 1, 2])
SESSION = Counting(3, last_time=0, only_last=True)
STEPS = Steps(3, 12, frozenset({1, 10}), last_time=2)
TABLE = Latest(b"3", lambda value: (int(value),) if value.isdigit() else None)


@pytest.mark.parametrize(
    ("rule", "found", "expected"),
    [
        (IN_ORDER, messages(b"a", b"b", b"c"), []),
        (IN_ORDER, messages(b"a", b"c"), [Kind.LOSS]),
        (IN_ORDER, messages(b"a", b"b", b"b", b"c"), [Kind.REPEAT]),
        (IN_ORDER, messages(b"b", b"a", b"c"), [Kind.ORDER]),
        (IN_ORDER, messages(b"a", b"b", b"c", times=[0, 1, 3]), [Kind.TIME]),
        (IN_ORDER, messages(b"a", b"b", b"c", b"x"), [Kind.WRONG]),
        (IN_ORDER, messages(b"a", b"b", b"b"), [Kind.LOSS, Kind.REPEAT]),
        (IN_ORDER, [], [Kind.LOSS]),
        (ANY_ORDER, messages(b"b", b"a", b"b", times=[2, 0, 1]), []),
        (ANY_ORDER, messages(b"b", b"a", times=[2, 0]), [Kind.LOSS]),
        (ANY_ORDER, messages(b"b", b"a", b"b", times=[2, 0, 5]), [Kind.TIME]),
        (Listed([], optional=[Result(b"a", 0)]), [], []),
        (Listed([], optional=[Result(b"a", 0)]), messages(b"a"), []),
        (Listed([], optional=[Result(b"a", 0)]), messages(b"a", b"a"), [Kind.REPEAT]),
        (TO_THREE, messages(1, 2, 3), []),
        (TO_THREE, messages(1, 2), [Kind.LOSS]),
        (TO_THREE, messages(1, 2, 3, 4), [Kind.REPEAT]),
        (TO_THREE, messages(1, 2, 2, 3), [Kind.REPEAT]),
        (TO_THREE, messages(2, 1, 3), [Kind.ORDER]),
        (TO_THREE, messages(1, 2, 3, times=[0, 1, 9]), [Kind.TIME]),
        (WINDOW, messages(1, 2, 3, times=[0, 0, 2]), [Kind.TIME]),
        (SESSION, messages(3), []),
        (SESSION, messages(2), [Kind.LOSS]),
        (SESSION, messages(4), [Kind.REPEAT]),
        (SESSION, messages(3, 3), [Kind.REPEAT]),
        (SESSION, [], [Kind.LOSS]),
        (STEPS, messages(1, 11, 12), []),
        (STEPS, messages(1, 11), [Kind.LOSS]),
        (STEPS, messages(1, 11, 12, 13), [Kind.REPEAT]),
        (STEPS, messages(1, 11, 11, 12), [Kind.REPEAT]),
        (STEPS, messages(11, 1, 12), [Kind.ORDER]),
        (STEPS, messages(1, 11, 12, times=[0, 1, 9]), [Kind.TIME]),
        (Parts(5), messages(2, 3), []),
        (Parts(5), messages(2), [Kind.LOSS]),
        (Parts(5), messages(2, 3, 2), [Kind.REPEAT]),
        (Parts(5), messages(2, 3, 0), [Kind.REPEAT]),
        (TABLE, messages(b"1", b"3"), []),
        (TABLE, messages(b"1", b"2"), [Kind.LOSS]),
        (TABLE, messages(b"2", b"1", b"3"), [Kind.ORDER]),
        (TABLE, messages(b"1", b"x", b"3"), [Kind.WRONG]),
        (TABLE, messages(b"1", None), [Kind.LOSS]),
    ],
)
def test_should_tell_what_is_wrong_after_exactly_once_processing(rule: Rule, found: list[Message], expected: list[Kind]) -> None:
    assert kinds(rule, found) == expected


@pytest.mark.parametrize(
    ("rule", "found", "expected"),
    [
        (IN_ORDER, messages(b"a", b"b", b"a", b"b", b"c"), []),
        (IN_ORDER, messages(b"a", b"b", b"a"), [Kind.LOSS]),
        (IN_ORDER, messages(b"a", b"b", b"c", b"x"), [Kind.WRONG]),
        (TO_THREE, messages(1, 2, 1, 2, 3, 4), []),
        (TO_THREE, messages(1, 2, 1, 2), [Kind.LOSS]),
        (STEPS, messages(1, 11, 1, 12), []),
        (STEPS, messages(1, 11), [Kind.LOSS]),
        (Parts(5), messages(2, 3, 3), []),
        (Parts(5), messages(2, 2), [Kind.LOSS]),
        (TABLE, messages(b"2", b"1", b"3"), []),
        (TABLE, messages(b"3", b"2"), [Kind.LOSS]),
        (TABLE, messages(b"x", b"3"), [Kind.WRONG]),
    ],
)
def test_should_allow_repeats_and_no_loss_after_at_least_once_processing(
    rule: Rule, found: list[Message], expected: list[Kind]
) -> None:
    assert kinds(rule, found, exactly_once=False) == expected


def test_should_tell_of_keys_that_nobody_expects_and_of_keys_in_two_partitions() -> None:
    strange = findings("app", {}, messages(1))
    assert [finding.kind for finding in strange] == [Kind.WRONG]
    assert "app 'k'" in str(strange[0])
    torn = [m._replace(partition=i % 2) for i, m in enumerate(messages(b"a", b"b", b"c"))]
    assert Kind.ORDER in kinds(IN_ORDER, torn)


def test_should_tell_where_a_transaction_hangs() -> None:
    assert hanging("out", {0: 5, 1: 7}, {0: 5, 1: 7}) == []
    assert [f.where for f in hanging("out", {0: 5, 1: 3}, {0: 5, 1: 7})] == ["out-1"]


def test_should_tell_which_offsets_are_not_committed() -> None:
    ends = {("in", 0): 5, ("in", 1): 0}
    assert uncommitted("app", {("in", 0): 5}, ends) == []
    assert "3 is committed of 5" in str(uncommitted("app", {("in", 0): 3}, ends)[0])
    assert "none is committed of 5" in str(uncommitted("app", {}, ends)[0])
    assert "9 is committed of 5" in str(uncommitted("app", {("in", 0): 9}, ends)[0])


def test_should_tell_how_a_store_and_its_changelog_differ() -> None:
    assert differing("task", {b"a": b"1"}, {b"a": b"1"}) == []
    (found,) = differing("task", {b"a": b"1", b"b": b"2"}, {b"a": b"1"})
    assert found.kind is Kind.STORE
    assert "1 keys, such as b'b': b'2' and logged None" in found.what


def test_should_see_in_every_application_that_input_was_taken_twice_or_not_at_all() -> None:
    """An input record that was lost or doubled shows in the output of every application: here its truth changes with it."""
    for application in APPLICATIONS.values():
        chance = random.Random(3)
        inputs: dict[str, list[Message]] = {topic: list(application.first().get(topic, ())) for topic in application.inputs}
        for batch in range(40):
            for topic, made in application.make(chance, batch * 120, 120).items():
                inputs[topic] += made
        index = next(i for i, m in enumerate(inputs["in"]) if i > 100 and m.value is not None)
        without: Inputs = {**inputs, "in": [m for i, m in enumerate(inputs["in"]) if i != index]}
        assert application.truth(without, 3) != application.truth(inputs, 3) or application.name == "foreign-key"
