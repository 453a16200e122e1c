import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import KStreamAggregate, KStreamReduce, KTableAggregate, KTableReduce
from tests.unit.operators.fakes import FakeContext, FakeStore, FakeVersionedStore, run


def add(key, value, aggregate):
    return f"{aggregate}+{value}"


def remove(key, value, aggregate):
    return f"{aggregate}-{value}"


def table_aggregate():
    return KTableAggregate("store", lambda: "0", add, remove)


def table_reduce():
    return KTableReduce("store", lambda a, b: f"{a}+{b}", lambda a, b: f"{a}-{b}")


def results(supplier, *rows, store=None, old=False):
    if old:
        supplier.enable_sending_old_values(False)
    context = FakeContext(store=store or FakeStore())
    run(supplier, context, *rows)
    return context


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


@pytest.mark.parametrize("supplier", [KStreamAggregate("store", lambda: "0", add), KStreamReduce("store", max)])
def test_should_drop_records_without_key_or_value(supplier):
    context = results(supplier, (None, 1, 1), ("a", None, 1))
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
    assert results(table_reduce(), ("g", Change(None, 1), 10)).forwarded == [("g", Change(None, None), 10)]
    assert results(table_aggregate(), ("g", Change(2, 1), 10)).forwarded == [("g", Change("0+2", None), 10)]


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
    supplier = KTableAggregate("store", lambda: 100, lambda k, v, a: a + v, lambda k, v, a: None)
    context = results(supplier, ("g", Change(1, None), 10), ("g", Change(5, 1), 5), old=True)
    assert context.forwarded[1] == ("g", Change(105, 101), 10)


@pytest.mark.parametrize("make", [table_aggregate, table_reduce])
def test_should_refuse_table_records_without_key(make):
    with pytest.raises(StreamsError, match=r"store.*must not be null"):
        results(make(), (None, Change(1, None), 1))


@pytest.mark.parametrize(
    "supplier", [KStreamAggregate("store", lambda: "0", add), KStreamReduce("store", max), table_aggregate(), table_reduce()]
)
def test_should_be_a_table_over_its_store(supplier):
    assert supplier.view().store_names == ("store",)
    assert supplier.enable_sending_old_values(False) is True
