"""KGroupedStream.reduce."""

from penstock.change import Change
from penstock.operators import KStreamReduce
from tests.unit.operators.fakes import FakeContext, FakeStore, FakeVersionedStore, results, run


def test_should_drop_records_without_key_or_value():
    context = results(KStreamReduce("store", max), (None, 1, 1), ("a", None, 1))
    assert context.forwarded == []
    assert context.dropped == ["Skipping record due to null key or value."] * 2


def test_should_reduce_from_the_first_value_on():
    context = results(KStreamReduce("store", lambda a, b: f"{a}+{b}"), ("a", "1", 10), ("a", "2", 5), ("a", "3", 15), old=True)
    assert context.forwarded == [("a", Change("1", None), 10), ("a", Change("1+2", "1"), 10), ("a", Change("1+2+3", "1+2"), 15)]


def test_should_mark_results_that_are_not_the_latest_of_a_versioned_store():
    store = FakeVersionedStore(oldest=3)
    store.put("a", "x", 10)
    context = FakeContext(store=store)
    supplier = KStreamReduce("store", lambda a, b: a + b)
    run(supplier, context, ("a", "y", 5), ("b", "z", 1))
    # The result of a late record takes the aggregate's timestamp; one the store no longer takes is not forwarded.
    assert context.forwarded == [("a", Change("xy", None), 10)]


def test_should_leave_forwarding_to_the_cache():
    context = results(KStreamReduce("store", max), ("a", 1, 1), store=FakeStore(caching=True))
    assert context.forwarded == []
