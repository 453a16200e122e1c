"""What all aggregations of streams and tables have in common."""

import pytest

from penstock.operators import KStreamAggregate, KStreamReduce
from tests.unit.operators.fakes import add, table_aggregate, table_reduce


@pytest.mark.parametrize(
    "supplier", [KStreamAggregate("store", lambda: "0", add), KStreamReduce("store", max), table_aggregate(), table_reduce()]
)
def test_should_be_a_table_over_its_store(supplier):
    assert supplier.view().store_names == ("store",)
    assert supplier.enable_sending_old_values(False) is True
