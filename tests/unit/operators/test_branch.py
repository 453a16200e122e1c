"""KStream.split."""

from penstock.operators import KStreamBranch
from tests.unit.operators.fakes import outputs


def test_should_send_each_record_to_the_first_branch_that_fits():
    predicates = [lambda key, value: value == 1, lambda key, value: value in (1, 3)]
    assert outputs(KStreamBranch(predicates, ["one", "two"])) == [("a", 1, 10, "one"), ("c", 3, 30, "two")]
    with_default = outputs(KStreamBranch(predicates, ["one", "two", "rest"]))
    assert with_default[1] == (None, None, 20, "rest")
