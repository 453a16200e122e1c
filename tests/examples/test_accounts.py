from penstock import Serdes, TopologyTestDriver
from penstock_examples.accounts import topology

HOUR = 3_600_000


def test_should_keep_balances_and_count_movements_by_hour() -> None:
    with TopologyTestDriver(topology()) as driver:
        transfers = driver.create_input_topic("transfers", Serdes.string(), Serdes.long())
        transfers.pipe_input("ada", 500, 0)
        transfers.pipe_input("ada", -200, HOUR // 2)
        transfers.pipe_input("bob", 50, HOUR)
        transfers.pipe_input("ada", 1, HOUR + 1)
        balances = driver.get_key_value_store("balances")
        assert (balances.get("ada"), balances.get("bob")) == (301, 50)
        movements = driver.get_window_store("movements")
        assert list(movements.fetch_range("ada", 0, HOUR)) == [(0, 2), (HOUR, 1)]
