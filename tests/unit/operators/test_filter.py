"""KStream.filter and filter_not."""

from penstock.operators import KStreamFilter
from tests.unit.operators.fakes import outputs


def test_should_forward_records_for_which_the_predicate_holds():
    assert outputs(KStreamFilter(lambda key, value: value and value > 1, False)) == [("c", 3, 30)]
    # A predicate may return anything truthy, not only booleans.
    assert outputs(KStreamFilter(lambda key, value: value, True)) == [(None, None, 20)]
    assert outputs(KStreamFilter(lambda key, value: value, False)) == [("a", 1, 10), ("c", 3, 30)]
