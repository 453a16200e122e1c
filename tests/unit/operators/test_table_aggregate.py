"""KGroupedTable.aggregate, and count."""

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import KTableAggregate
from tests.unit.operators.fakes import results, table_aggregate


def test_should_subtract_then_add_in_table_aggregations():
    context = results(
        table_aggregate(),
        ("g", Change(1, None), 10),
        ("g", Change(2, 1), 5),
        ("g", Change(None, 2), 20),
        ("g", Change(None, None), 3),
        old=True,
    )
    assert context.forwarded == [
        ("g", Change("0+1", None), 10),
        ("g", Change("0+1-1+2", "0+1"), 10),
        ("g", Change("0+1-1+2-2", "0+1-1+2"), 20),
        ("g", Change("0+1-1+2-2", "0+1-1+2-2"), 3),
    ]


def test_should_not_subtract_from_what_is_not_there():
    assert results(table_aggregate(), ("g", Change(None, 1), 10)).forwarded == [("g", Change(None, None), 10)]
    assert results(table_aggregate(), ("g", Change(2, 1), 10)).forwarded == [("g", Change("0+2", None), 10)]


def test_should_start_anew_when_a_remover_returns_none():
    supplier = KTableAggregate("store", lambda: 100, lambda k, v, a: a + v, lambda k, v, a: None)
    context = results(supplier, ("g", Change(1, None), 10), ("g", Change(5, 1), 5), old=True)
    assert context.forwarded[1] == ("g", Change(105, 101), 10)


def test_should_refuse_table_records_without_key():
    with pytest.raises(StreamsError, match=r"store.*must not be null"):
        results(table_aggregate(), (None, Change(1, None), 1))
