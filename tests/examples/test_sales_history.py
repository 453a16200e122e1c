from datetime import datetime, timezone

from penstock import Serdes, TopologyTestDriver
from penstock_examples.sales_history import topology

NEW_YEAR = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)


def test_should_add_up_the_sales_of_a_day() -> None:
    """The test driver leaves history out: it processes what a test gives it."""
    with TopologyTestDriver(topology()) as driver:
        sales = driver.create_input_topic("sales", Serdes.string(), Serdes.long())
        revenue = driver.create_output_topic("revenue", Serdes.string(), Serdes.long())
        sales.pipe_input("boat", 1000, NEW_YEAR)
        sales.pipe_input("boat", 500, NEW_YEAR + 1)
        sales.pipe_input("rope", 70, NEW_YEAR + 86_400_000)
        assert revenue.read_key_values_to_map() == {"boat 2026-01-01": 1500, "rope 2026-01-02": 70}
