"""KTable.group_by: rows go to their groups."""

import pytest

from penstock.change import Change
from penstock.errors import StreamsError
from penstock.operators import KTableRepartitionMap
from tests.unit.operators.fakes import FakeContext, FakeParent, run


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


def test_should_refuse_text_in_place_of_group_and_value():
    with pytest.raises(StreamsError, match="group_by returned a str: it must return a pair"):
        regroup(("k", Change("gv", None), 5))
