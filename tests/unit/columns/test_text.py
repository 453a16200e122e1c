"""Text as Arrow has it gives what Python's own strings give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.text import LateColumn, TextColumn

SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0 　"
TEXT = st.text(st.one_of(st.sampled_from(SPACES), st.sampled_from("abé"), st.characters(exclude_categories=["Cs"])), max_size=12)


@given(st.lists(TEXT, max_size=8))
def test_should_split_as_python_does(lines: list[str]) -> None:
    words, counts = TextColumn.of([line.encode() for line in lines]).split()
    assert list(words) == [word for line in lines for word in line.split()]
    assert counts == [len(line.split()) for line in lines]


def test_should_split_a_part_of_a_column() -> None:
    column = TextColumn(TextColumn.of([b"a b", b" c\x1cd ", b"e"]).array.slice(1, 2))
    words, counts = column.split()
    assert (list(words), counts) == (["c", "d", "e"], [2, 1])


def test_should_refuse_what_is_no_text() -> None:
    for data in ([b"a", None], [b"\xff"]):
        try:
            TextColumn.of(data)
        except ValueError:
            continue
        raise AssertionError(data)


def test_should_make_a_late_list_once() -> None:
    made: list[int] = []
    column = LateColumn(2, lambda: made.append(1) or ["x", "y"])  # type: ignore[func-returns-value]
    assert (len(column), made) == (2, [])
    assert (column[0], column[-1], column[:1], "y" in column, list(column), made) == ("x", "y", ["x"], True, ["x", "y"], [1])
