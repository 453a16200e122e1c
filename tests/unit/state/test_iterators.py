from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidStateStoreError
from penstock.state.iterators import PeekingIterator, is_inverted, overlay, prefix_end

KEYS = st.binary(max_size=2)


@given(
    upper=st.dictionaries(KEYS, st.none() | st.binary(max_size=2)),
    lower=st.dictionaries(KEYS, st.binary(max_size=2)),
    forward=st.booleans(),
)
def test_should_lay_one_sorted_source_over_another(
    upper: dict[bytes, bytes | None], lower: dict[bytes, bytes], forward: bool
) -> None:
    merged = overlay(
        sorted(upper.items(), key=lambda entry: entry[0], reverse=not forward),
        sorted(lower.items(), reverse=not forward),
        forward,
    )

    expected = {key: value for key, value in {**lower, **upper}.items() if value is not None}
    assert list(merged) == sorted(expected.items(), reverse=not forward)


@given(prefix=st.binary(max_size=4), key=st.binary(max_size=6))
def test_should_end_a_prefix_right_after_its_last_key(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)

    assert (key >= prefix and (end is None or key < end)) == key.startswith(prefix)


def test_should_peek_without_moving() -> None:
    entries = PeekingIterator([(b"a", b"1"), (b"b", b"2")], "store")

    assert entries.peek_next_key() == b"a"
    assert entries.peek() == (b"a", b"1")
    assert list(entries) == [(b"a", b"1"), (b"b", b"2")]
    assert not entries.has_next()
    with pytest.raises(StopIteration):
        entries.peek_next_key()


def test_should_refuse_to_read_on_after_close() -> None:
    entries = PeekingIterator([(b"a", b"1"), (b"b", b"2")], "store")
    next(entries)

    entries.close()
    entries.close()

    with pytest.raises(InvalidStateStoreError, match="Iterator for store store has already been closed"):
        next(entries)
    assert not entries.has_next()


def test_should_drop_a_peeked_entry_on_close() -> None:
    entries = PeekingIterator([(b"a", b"1")], "store")
    entries.peek()
    entries.close()

    with pytest.raises(InvalidStateStoreError):
        next(entries)


def test_should_let_go_of_the_source_at_its_end_and_only_once() -> None:
    closed: list[object] = []
    entries = PeekingIterator([(b"a", b"1")], "store", closed.append)

    list(entries)
    assert closed == [entries]

    entries.close()
    assert closed == [entries]


def test_should_warn_of_an_inverted_range(caplog: pytest.LogCaptureFixture) -> None:
    assert is_inverted(b"b", b"a")
    assert "from > to" in caplog.text
    assert not is_inverted(b"a", b"a")
    assert not is_inverted(None, b"a")
    assert not is_inverted(b"a", None)
