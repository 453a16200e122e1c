"""The order of keys for readers: as a sorted set would give it, whatever is added and removed meanwhile."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state import read_order
from penstock.state.read_order import ReadOrder

_keys = st.binary(max_size=3)
_bound = st.none() | _keys


@settings(max_examples=300, deadline=None)
@given(
    st.sets(_keys, max_size=60),
    st.lists(st.tuples(st.booleans(), _keys), max_size=30),
    _bound,
    _bound,
    st.integers(1, 20),
    st.booleans(),
)
def test_should_give_all_keys_of_a_range_part_by_part(
    first: set[bytes], changes: list[tuple[bool, bytes]], low: bytes | None, high: bytes | None, limit: int, forward: bool
) -> None:
    chunk, read_order._CHUNK = read_order._CHUNK, 4
    try:
        model, order = set(first), ReadOrder(list(first))
        half = len(changes) // 2
        for add, key in changes[:half]:
            change(order, model, add, key)
        order.build()
        for add, key in changes[half:]:
            change(order, model, add, key)
    finally:
        read_order._CHUNK = chunk
    found: list[bytes] = []
    at_low, at_high, ended = low, high, False
    while not ended:
        keys, ended = order.keys(at_low, at_high, limit, forward)
        assert len(keys) <= limit + len(order._added)
        found += keys
        if keys:
            at_low, at_high = (keys[-1] + b"\0", at_high) if forward else (at_low, keys[-1])
    expected = [k for k in sorted(model, reverse=not forward) if (low is None or low <= k) and (high is None or k < high)]
    assert [key for key in found if key in model] == expected


def change(order: ReadOrder, model: set[bytes], add: bool, key: bytes) -> None:
    if add and key not in model:
        order.add(key)
        model.add(key)
    elif not add and key in model:
        order.remove(key)
        model.discard(key)


def test_should_not_sort_all_keys_at_once() -> None:
    keys = [b"%07d" % ((number * 7919) % 100_003) for number in range(100_003)]
    order = ReadOrder(keys)
    order.build()
    assert max(map(len, order._chunks)) < 20_000
    assert order.keys(None, None, 3) == ([b"0000000", b"0000001", b"0000002"], False)
    assert order.keys(None, None, 2, forward=False) == ([b"0100002", b"0100001"], False)


def test_should_be_of_no_more_use_when_too_much_has_changed_since_it_was_read() -> None:
    order = ReadOrder([b"a"])
    order.build()
    for number in range(10_000):
        order.add(b"%d" % number)
    assert not order.is_outgrown  # somebody waits for it
    assert len(order.keys(None, None, 10)[0]) == 10_001
    order.add(b"one more")
    assert order.is_outgrown
    assert not order._added
