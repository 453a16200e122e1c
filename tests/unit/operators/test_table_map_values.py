"""KTable.map_values."""

from penstock.change import Change
from penstock.operators import KTableMapValues
from tests.unit.operators.fakes import FakeContext, FakeParent, FakeVersionedStore, on, run, times_ten


def test_should_map_values_and_old_values():
    context = FakeContext()
    supplier = on(KTableMapValues, times_ten, parent=FakeParent(sends_old_values=True))
    supplier.enable_sending_old_values(False)
    run(supplier, context, ("a", Change(1, None), 1), ("a", Change(2, 1, is_latest=False), 2), ("a", Change(None, 2), 3))
    assert context.forwarded == [
        ("a", Change(10, None), 1),
        ("a", Change(20, 10, is_latest=False), 2),
        ("a", Change(None, 20), 3),
    ]


def test_should_keep_mapped_values_in_a_versioned_store():
    context = FakeContext(own=FakeVersionedStore(oldest=2))
    supplier = on(KTableMapValues, times_ten, queryable="own")
    supplier.enable_sending_old_values(False)
    run(supplier, context, ("a", Change(1, None), 5), ("a", Change(2, 1), 3), ("a", Change(3, 2), 1))
    assert context.forwarded == [("a", Change(10, None), 5), ("a", Change(20, 10, is_latest=False), 3)]
