import pytest

from penstock.change import Change
from penstock.errors import InvalidStateStoreError
from penstock.operators import KTableMaterializedValueGetterSupplier, KTableSource
from penstock.record import Record
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.fakes import FakeContext, FakeStore, FakeVersionedStore, run


def materialized(send_old_values=True):
    source = KTableSource("store", None)
    source.materialize()
    if send_old_values:
        source.enable_sending_old_values()
    return source


def test_should_only_forward_without_a_store():
    context = FakeContext()
    source = KTableSource("store", None)
    assert not source.materialized
    run(source, context, ("a", 1, 10), ("a", None, 11))
    assert context.forwarded == [("a", Change(1, None), 10), ("a", Change(None, None), 11)]


def test_should_store_rows_and_send_old_values():
    store = FakeStore()
    context = FakeContext(store=store)
    run(materialized(), context, ("a", 1, 10), ("a", 2, 20), ("b", None, 5), ("a", None, 30))
    assert context.forwarded == [
        ("a", Change(1, None), 10),
        ("a", Change(2, 1), 20),
        ("b", Change(None, None), 5),
        ("a", Change(None, 2), 30),
    ]
    assert store.contents() == {}


def test_should_leave_out_old_values_nobody_asked_for():
    context = FakeContext(store=FakeStore())
    run(materialized(send_old_values=False), context, ("a", 1, 10), ("a", 2, 20))
    assert context.forwarded == [("a", Change(1, None), 10), ("a", Change(2, None), 20)]


def test_should_drop_records_without_a_key():
    context = FakeContext(store=FakeStore())
    run(materialized(), context, (None, 1, 10))
    assert context.forwarded == []
    assert context.dropped == ["Skipping record due to null key."]


def test_should_take_late_updates_but_warn(caplog):
    store = FakeStore()
    run(materialized(), FakeContext(store=store), ("a", 1, 10), ("a", 2, 5))
    assert store.contents() == {"a": (2, 5)}
    assert (
        "Detected out-of-order KTable update for store, old timestamp=[10] new timestamp=[5]. "
        "topic=[topic] partition=[3] offset=[7]." in caplog.text
    )


def test_should_mark_late_updates_of_a_versioned_table():
    context = FakeContext(store=FakeVersionedStore(oldest=3))
    run(materialized(), context, ("a", 1, 10), ("a", 2, 5), ("a", 3, 1))
    assert context.forwarded == [("a", Change(1, None), 10), ("a", Change(2, 1, is_latest=False), 5)]


def test_should_leave_forwarding_to_the_cache_and_its_flush():
    store = FakeStore(caching=True)
    context = FakeContext(store=store)
    run(materialized(), context, ("a", 1, 10))
    assert context.forwarded == []
    context.current_node = "another"
    store.listener(Record("a", Change(ValueAndTimestamp(1, 10), None), 99))
    store.listener(Record("a", Change(None, ValueAndTimestamp(1, 10)), 99))
    assert context.forwarded == [("a", Change(1, None), 10), ("a", Change(None, 1), 99)]
    assert context.nodes_at_forward == ["me", "me"]
    assert context.current_node == "another"


def test_should_look_up_rows_in_the_store():
    store = FakeStore()
    context = FakeContext(store=store, versions=FakeVersionedStore())
    run(materialized(), context, ("a", 1, 10))
    supplier = KTableMaterializedValueGetterSupplier("store")
    getter = supplier.get()
    getter.init(context)
    assert supplier.store_names == ("store",)
    assert (getter.get("a").value, getter.get("a").timestamp) == (1, 10)
    assert getter.get("b") is None
    assert not getter.is_versioned
    with pytest.raises(Exception, match="versioned"):
        getter.get("a", 5)
    getter.close()


def test_should_look_up_versions():
    store = FakeVersionedStore()
    context = FakeContext(store=store)
    run(materialized(), context, ("a", 1, 10), ("a", 2, 20))
    getter = KTableMaterializedValueGetterSupplier("store").get()
    getter.init(context)
    assert getter.is_versioned
    assert (getter.get("a").value, getter.get("a", 15).value, getter.get("a", 5)) == (2, 1, None)


def test_should_refuse_other_stores():
    with pytest.raises(InvalidStateStoreError, match=r"store cannot keep a table.*dict"):
        run(materialized(), FakeContext(store={}))
