"""KTable.filter and filter_not."""

from penstock.change import Change
from tests.unit.operators.fakes import FakeContext, FakeParent, FakeStore, filtered, run


def test_should_turn_rows_that_fall_out_into_deletions():
    context = FakeContext()
    run(filtered(), context, ("a", Change(1, None), 1), ("a", Change(2, None), 2), ("a", Change(None, None), 3))
    assert context.forwarded == [("a", Change(None, None), 1), ("a", Change(2, None), 2), ("a", Change(None, None), 3)]


def test_should_filter_not():
    context = FakeContext()
    run(filtered(filter_not=True), context, ("a", Change(1, None), 1), ("a", Change(2, None), 2))
    assert context.forwarded == [("a", Change(1, None), 1), ("a", Change(None, None), 2)]


def test_should_save_deletions_of_rows_that_were_never_there_when_the_parent_sends_old_values():
    context = FakeContext()
    rows = [("a", Change(1, None), 1), ("a", Change(2, 1), 2), ("a", Change(3, 2), 3), ("a", Change(5, 3), 4)]
    run(filtered(FakeParent(sends_old_values=True)), context, *rows)
    assert context.forwarded == [("a", Change(2, None), 2), ("a", Change(None, 2), 3)]


def test_should_not_save_deletions_of_a_versioned_table():
    supplier = filtered(FakeParent(sends_old_values=True))
    supplier.set_use_versioned_semantics(True)
    context = FakeContext()
    run(supplier, context, ("a", Change(1, None, is_latest=False), 1))
    assert context.forwarded == [("a", Change(None, None, is_latest=False), 1)]


def test_should_keep_a_filtered_table_in_its_own_store():
    store = FakeStore()
    context = FakeContext(own=store)
    supplier = filtered(queryable="own")
    assert supplier.enable_sending_old_values(False)
    run(
        supplier,
        context,
        ("a", Change(2, None), 1),
        ("a", Change(4, None), 2),
        ("a", Change(5, None), 3),
        ("a", Change(7, None), 4),
    )
    assert context.forwarded == [("a", Change(2, None), 1), ("a", Change(4, 2), 2), ("a", Change(None, 4), 3)]
    assert store.contents() == {}
    assert supplier.view().store_names == ("own",)
