"""Orders as `java.util.HashSet<Bytes>` gave them for the same keys."""

from __future__ import annotations

import pytest

from penstock.state.buffers.java_hash_set import JavaHashSet

_THIRTY = "84 119 21 42 63 0 28 49 140 161 182 105 189 147 70 126 168 91 56 35 98 14 77 203 7 196 154 175 112 133"


def _order(count: int) -> list[int]:
    keys = JavaHashSet()
    for number in range(count):
        keys.add(f"key-{number * 7}ÿ".encode())
    return [int(key.decode()[4:-1]) for key in keys]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, [7, 0]),
        (5, [28, 7, 21, 14, 0]),
        (12, [70, 28, 49, 7, 56, 21, 35, 14, 42, 63, 0, 77]),
        (13, [70, 84, 56, 21, 35, 14, 42, 63, 0, 77, 28, 49, 7]),
        (
            30,
            [int(number) for number in _THIRTY.split()],
        ),
    ],
)
def test_should_iterate_in_the_order_of_javas_table(count: int, expected: list[int]) -> None:
    assert _order(count) == expected


def test_should_keep_the_size_of_its_table_when_cleared() -> None:
    keys = JavaHashSet()
    for number in range(30):
        keys.add(str(number).encode())
    keys.clear()
    for number in range(5):
        keys.add(f"k{number}".encode())

    assert list(keys) == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    assert len(keys) == 5


def test_should_hold_a_key_once() -> None:
    keys = JavaHashSet()
    keys.add(b"a")
    keys.add(b"a")

    assert list(keys) == [b"a"]
