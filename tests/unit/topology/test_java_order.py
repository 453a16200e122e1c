from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.topology.java_order import TreeSet, hash_copy_order, hash_order, string_hash, utf16_units


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("Aa", 2112), ("BB", 2112), ("KSTREAM-SOURCE-0000000000", 1_861_603_632), ("\U0001f600", 1_772_899)],
)
def test_should_hash_strings_as_java_does(text: str, expected: int) -> None:
    assert string_hash(text) == expected


@settings(max_examples=50)
@given(st.lists(st.text(max_size=6), max_size=80))
def test_should_hand_out_every_name_once(names: list[str]) -> None:
    assert sorted(hash_order(names)) == sorted(set(names))
    assert sorted(hash_copy_order(names)) == sorted(set(names))


def test_should_keep_insertion_order_within_a_bin() -> None:
    assert hash_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert hash_order(["Aa", "BB"]) == ["Aa", "BB"]


def test_should_size_the_table_of_a_copy_beforehand() -> None:
    names = ["orders", "users", "clicks", "join", "filter", "count", "map", "enrich", "merge", "split", "audit", "fraud"]
    # Printed by OpenJDK 17: twelve names fill a table of 16 when added one by one, a copy gets a table of 32.
    assert ", ".join(hash_order(names)) == "filter, split, audit, fraud, merge, count, clicks, enrich, orders, join, map, users"
    assert (
        ", ".join(hash_copy_order(names)) == "count, users, filter, split, audit, fraud, merge, clicks, enrich, orders, join, map"
    )


@settings(max_examples=50)
@given(st.lists(st.integers(-50, 50), max_size=200))
def test_should_sort_where_the_comparator_is_consistent(numbers: list[int]) -> None:
    tree: TreeSet[int] = TreeSet(lambda first, second: first - second)
    for number in numbers:
        tree.add(number)
    assert list(tree) == sorted(set(numbers))


@settings(max_examples=50)
@given(st.lists(st.text(max_size=4), max_size=30))
def test_should_compare_by_utf16_code_units(names: list[str]) -> None:
    def units(text: str) -> list[int]:
        data = text.encode("utf-16-be", "surrogatepass")
        return [int.from_bytes(data[index : index + 2], "big") for index in range(0, len(data), 2)]

    assert sorted(names, key=utf16_units) == sorted(names, key=units)
