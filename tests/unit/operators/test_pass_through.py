"""Nodes that only join ways, such as merge."""

from penstock.operators import PassThrough
from tests.unit.operators.fakes import ROWS, outputs


def test_should_pass_records_through():
    assert outputs(PassThrough()) == ROWS
