from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state import sorted_keys
from penstock.state.sorted_keys import SortedKeys

KEYS = st.binary(max_size=3)
BOUNDS = st.none() | KEYS


def _expected(model: set[bytes], key_from: bytes | None, key_to: bytes | None, to_inclusive: bool) -> list[bytes]:
    return sorted(
        key
        for key in model
        if (key_from is None or key >= key_from) and (key_to is None or key < key_to or (to_inclusive and key == key_to))
    )


@settings(max_examples=100, deadline=None)
@given(
    first=st.lists(KEYS, max_size=40),
    steps=st.lists(st.tuples(st.booleans(), KEYS, BOUNDS, BOUNDS, st.booleans(), st.booleans()), max_size=60),
    chunk=st.sampled_from([2, 3, 1024]),
)
def test_should_give_ranges_like_a_sorted_set(
    first: list[bytes],
    steps: list[tuple[bool, bytes, bytes | None, bytes | None, bool, bool]],
    chunk: int,
) -> None:
    original, sorted_keys._CHUNK = sorted_keys._CHUNK, chunk
    try:
        model = set(first)
        keys = SortedKeys(model)
        for add, key, key_from, key_to, to_inclusive, read in steps:
            if add and key not in model:
                model.add(key)
                keys.add(key)
            elif not add and key in model:
                model.remove(key)
                keys.remove(key)
            if read:
                assert keys.range(key_from, key_to, to_inclusive) == _expected(model, key_from, key_to, to_inclusive)
        assert keys.range(None, None) == sorted(model)
    finally:
        sorted_keys._CHUNK = original


def test_should_work_in_single_keys_without_sorting_everything_again() -> None:
    keys = SortedKeys(b"%06d" % number for number in range(0, 100_000, 2))

    for number in range(1, 2001, 2):
        keys.add(b"%06d" % number)
        assert keys.range(b"%06d" % (number - 1), b"%06d" % (number + 1))[1] == b"%06d" % number

    assert len(keys.range(None, None)) == 51_000
