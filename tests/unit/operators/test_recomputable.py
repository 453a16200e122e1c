"""Which operators compute the same records again from the same input."""

from penstock.operators import KStreamAggregate, KStreamFilter


def test_should_say_which_suppliers_can_compute_again():
    assert KStreamFilter.recomputable
    assert not KStreamAggregate.recomputable
