"""KGroupedTable.reduce."""

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import KTableReduce
from tests.unit.operators.fakes import results, table_reduce


def test_should_not_subtract_from_what_is_not_there():
    assert results(table_reduce(), ("g", Change(None, 1), 10)).forwarded == [("g", Change(None, None), 10)]


def test_should_reduce_tables():
    context = results(
        table_reduce(), ("g", Change("1", None), 10), ("g", Change("2", "1"), 5), ("g", Change(None, "2"), 20), old=True
    )
    assert context.forwarded == [
        ("g", Change("1", None), 10),
        ("g", Change("1-1+2", "1"), 10),
        ("g", Change("1-1+2-2", "1-1+2"), 20),
    ]


def test_should_start_anew_when_a_remover_returns_none():
    supplier = KTableReduce("store", lambda a, b: a + b, lambda a, b: None)
    context = results(supplier, ("g", Change(1, None), 10), ("g", Change(5, 1), 5), old=True)
    assert context.forwarded[1] == ("g", Change(5, 1), 10)


def test_should_refuse_table_records_without_key():
    with pytest.raises(StreamsError, match=r"store.*must not be null"):
        results(table_reduce(), (None, Change(1, None), 1))
