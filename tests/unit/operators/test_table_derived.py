import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import (
    KTableFilter,
    KTableMapValues,
    KTableMaterializedValueGetterSupplier,
    KTablePassThrough,
    KTableProcessorSupplier,
    KTableRepartitionMap,
    KTableTransformValues,
)
from penstock.processor import ValueTransformerWithKey
from penstock.state.store import ValueAndTimestamp
from tests.unit.operators.fakes import FakeContext, FakeParent, FakeStore, FakeVersionedStore, run


def even(key, value):
    return value % 2 == 0


def times_ten(key, value):
    return value * 10


class Describe(ValueTransformerWithKey):
    closed = 0

    def init(self, context):
        self.context = context

    def transform(self, key, value):
        return f"{key}:{value}@{self.context.record_context.timestamp}"

    def close(self):
        type(self).closed += 1


def on(supplier_type, *arguments, parent=None, queryable=None):
    return supplier_type(parent or FakeParent(), *arguments, queryable)


def filtered(parent=None, queryable=None, filter_not=False):
    return KTableFilter(parent or FakeParent(), even, filter_not, queryable)


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


def test_should_ask_the_parent_for_old_values_without_an_own_store():
    parent = FakeParent()
    supplier = on(KTableMapValues, times_ten, parent=parent)
    assert not supplier.enable_sending_old_values(False)
    assert supplier.enable_sending_old_values(True)
    assert parent.forced
    assert isinstance(supplier, KTableProcessorSupplier)


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


def test_should_transform_values_deletions_included():
    context = FakeContext()
    supplier = on(KTableTransformValues, Describe, parent=FakeParent(sends_old_values=True))
    supplier.enable_sending_old_values(False)
    closed = Describe.closed
    processor = run(supplier, context, ("a", Change(1, None), 1), ("a", Change(None, 1), 2))
    processor.close()
    assert context.forwarded == [("a", Change("a:1@0", "a:None@0"), 1), ("a", Change("a:None@0", "a:1@0"), 2)]
    assert Describe.closed == closed + 1


def test_should_keep_transformed_values_in_a_store():
    context = FakeContext(own=FakeStore())
    supplier = on(KTableTransformValues, Describe, queryable="own")
    supplier.enable_sending_old_values(False)
    run(supplier, context, ("a", Change(1, None), 1), ("a", Change(2, None), 2))
    assert context.forwarded == [("a", Change("a:1@0", None), 1), ("a", Change("a:2@0", "a:1@0"), 2)]


def test_should_not_let_a_transformer_forward():
    class Forwards(ValueTransformerWithKey):
        def transform(self, key, value):
            self.context.forward(key, value)

    with pytest.raises(StreamsError, match="forward"):
        run(on(KTableTransformValues, Forwards), FakeContext(), ("a", Change(1, None), 1))


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


def regroup(*rows, versioned=False, app_configs=None):
    context = FakeContext(app_configs=app_configs)
    supplier = KTableRepartitionMap(FakeParent(), lambda key, value: value)
    supplier.set_use_versioned_semantics(versioned)
    run(supplier, context, *rows)
    return context.forwarded


def test_should_send_one_change_where_the_group_stays_and_two_where_it_changes():
    assert regroup(("k", Change(("g", 2), ("g", 1)), 5)) == [("g", Change(2, 1), 5)]
    assert regroup(("k", Change(("h", 2), ("g", 1)), 5)) == [("g", Change(None, 1), 5), ("h", Change(2, None), 5)]
    assert regroup(("k", Change(("g", 2), None), 5)) == [("g", Change(2, None), 5)]
    assert regroup(("k", Change(None, ("g", 2)), 5)) == [("g", Change(None, 2), 5)]


def test_should_leave_out_groups_without_key_or_value():
    assert regroup(("k", Change((None, 2), ("g", None)), 5)) == []
    assert regroup(("k", Change(("g", 1), (None, 2)), 5)) == [("g", Change(1, None), 5)]


def test_should_send_two_changes_while_old_members_may_read_them():
    two = [("g", Change(None, 1), 5), ("g", Change(2, None), 5)]
    assert regroup(("k", Change(("g", 2), ("g", 1)), 5), app_configs={"upgrade.from": "3.4"}) == two
    assert len(regroup(("k", Change(("g", 2), ("g", 1)), 5), app_configs={"upgrade.from": "3.5"})) == 1


def test_should_leave_out_late_changes_of_a_versioned_table():
    late = ("k", Change(("g", 2), ("g", 1), is_latest=False), 5)
    assert regroup(late, versioned=True) == []
    assert regroup(late) == [("g", Change(2, 1, is_latest=False), 5)]


def test_should_refuse_a_grouped_table_without_key_and_access_to_its_store():
    with pytest.raises(StreamsError, match="null"):
        regroup((None, Change(("g", 2), None), 5))
    supplier = KTableRepartitionMap(FakeParent(), lambda key, value: value)
    with pytest.raises(StreamsError):
        supplier.enable_sending_old_values(True)
    with pytest.raises(StreamsError):
        _ = supplier.view().store_names


def test_should_pass_the_changes_of_a_cogroup_through():
    class Aggregation:
        asked = False

        def enable_sending_old_values(self):
            self.asked = True

    parents = [Aggregation(), Aggregation()]
    supplier = KTablePassThrough(parents, "shared")
    assert supplier.enable_sending_old_values(False)
    assert all(parent.asked for parent in parents)
    context = FakeContext()
    run(supplier, context, ("a", Change(1, None), 1))
    assert context.forwarded == [("a", Change(1, None), 1)]
    assert supplier.view().store_names == ("shared",)
