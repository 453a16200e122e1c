"""KGroupedStream.aggregate, and count."""

from penstock.change import Change
from penstock.operators import KStreamAggregate
from tests.unit.operators.fakes import FakeStore, add, results


def test_should_aggregate_with_the_latest_timestamp():
    store = FakeStore()
    context = results(KStreamAggregate("store", lambda: "0", add), ("a", 1, 10), ("a", 2, 5), ("b", 3, 7), store=store)
    assert context.forwarded == [("a", Change("0+1", None), 10), ("a", Change("0+1+2", None), 10), ("b", Change("0+3", None), 7)]
    assert store.contents() == {"a": ("0+1+2", 10), "b": ("0+3", 7)}
    assert context.last.headers == (("h", b"1"),)


def test_should_send_the_initial_value_as_the_first_old_value():
    context = results(KStreamAggregate("store", lambda: "0", add), ("a", 1, 10), ("a", 2, 20), old=True)
    assert context.forwarded == [("a", Change("0+1", "0"), 10), ("a", Change("0+1+2", "0+1"), 20)]


def test_should_delete_an_aggregate_that_becomes_none():
    store = FakeStore()
    supplier = KStreamAggregate("store", lambda: 0, lambda key, value, aggregate: None if value < 0 else aggregate + value)
    context = results(supplier, ("a", 1, 1), ("a", -1, 2), ("a", 5, 1), store=store)
    assert context.forwarded == [("a", Change(1, None), 1), ("a", Change(None, None), 2), ("a", Change(5, None), 1)]


def test_should_drop_records_without_key_or_value():
    context = results(KStreamAggregate("store", lambda: "0", add), (None, 1, 1), ("a", None, 1))
    assert context.forwarded == []
    assert context.dropped == ["Skipping record due to null key or value."] * 2
