"""The table of a cogroup."""

from penstock.change import Change
from penstock.operators import KTablePassThrough
from tests.unit.operators.fakes import FakeContext, run


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
