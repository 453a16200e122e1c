"""Tables that are computed from the one above: how their rows are looked up."""

import pytest

from penstock.operators import (
    KTableMapValues,
    KTableMaterializedValueGetterSupplier,
    KTableProcessorSupplier,
    KTableRepartitionMap,
    KTableTransformValues,
)
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.fakes import Describe, FakeContext, FakeParent, FakeStore, FakeVersionedStore, filtered, on, times_ten


def test_should_ask_the_parent_for_old_values_without_an_own_store():
    parent = FakeParent()
    supplier = on(KTableMapValues, times_ten, parent=parent)
    assert not supplier.enable_sending_old_values(False)
    assert supplier.enable_sending_old_values(True)
    assert parent.forced
    assert isinstance(supplier, KTableProcessorSupplier)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda parent: filtered(parent), {"a": None, "b": (2, 20), "c": None}),
        (lambda parent: on(KTableMapValues, times_ten, parent=parent), {"a": (10, 10), "b": (20, 20), "c": None}),
        (
            lambda parent: on(KTableTransformValues, Describe, parent=parent),
            {"a": ("a:1@10", 10), "b": ("b:2@20", 20), "c": ("c:None@-1", -1)},
        ),
        (
            lambda parent: KTableRepartitionMap(parent, lambda key, value: (value, key)),
            {"a": ((1, "a"), 10), "b": ((2, "b"), 20), "c": ((None, "c"), 0)},
        ),
    ],
)
def test_should_compute_rows_from_the_parents_on_lookup(make, expected):
    store = FakeStore()
    store.rows = {"a": ValueAndTimestamp(1, 10), "b": ValueAndTimestamp(2, 20)}
    context = FakeContext(parents=store)
    supplier = make(FakeParent(getter_supplier=KTableMaterializedValueGetterSupplier("parents")))
    getter = supplier.view().get()
    getter.init(context)
    rows = {key: getter.get(key) for key in expected}
    assert {key: row and (row.value, row.timestamp) for key, row in rows.items()} == expected
    assert context.record_context.topic == "topic"
    assert not getter.is_versioned
    getter.close()


def test_should_look_up_versions_through_derived_tables():
    store = FakeVersionedStore()
    store.put("a", 2, 10)
    store.put("a", 4, 20)
    parent = FakeParent(getter_supplier=KTableMaterializedValueGetterSupplier("parents"))
    getter = on(KTableMapValues, times_ten, parent=parent).view().get()
    getter.init(FakeContext(parents=store))
    assert getter.is_versioned
    assert (getter.get("a").value, getter.get("a", 15).value) == (40, 20)
    assert on(KTableMapValues, times_ten, parent=parent).view().store_names == ("parents",)
