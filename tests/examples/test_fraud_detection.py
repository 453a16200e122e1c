from typing import Any

import pytest

from penstock import Serdes, TestInputTopic, TestOutputTopic, TopologyTestDriver
from penstock_examples.fraud_detection import topology

MINUTE = 60_000


@pytest.fixture
def driver() -> Any:
    with TopologyTestDriver(topology()) as driver:
        yield driver


@pytest.fixture
def payments(driver: TopologyTestDriver) -> TestInputTopic[str, Any]:
    return driver.create_input_topic("payments", Serdes.string(), Serdes.json())


@pytest.fixture
def withdrawals(driver: TopologyTestDriver) -> TestInputTopic[str, Any]:
    return driver.create_input_topic("withdrawals", Serdes.string(), Serdes.json())


@pytest.fixture
def reports(driver: TopologyTestDriver) -> TestOutputTopic[str, Any]:
    return driver.create_output_topic("fraud-reports", Serdes.string(), Serdes.json())


def test_should_report_a_card_used_in_two_countries_once_a_minute(payments: Any, withdrawals: Any, reports: Any) -> None:
    payments.pipe_input("card-1", {"country": "FR", "amount": 40}, 0)
    withdrawals.pipe_input("card-1", {"country": "BR", "amount": 500}, 10_000)
    withdrawals.pipe_input("card-1", {"country": "BR", "amount": 500}, 20_000)
    assert reports.read_key_values_to_map() == {}
    payments.pipe_input("card-2", {"country": "FR", "amount": 1}, MINUTE)
    assert reports.read_key_values() == [("card-1", {"cases": 2, "amount": 1080})]
    payments.pipe_input("card-2", {"country": "FR", "amount": 1}, 3 * MINUTE)
    assert reports.is_empty


@pytest.mark.parametrize(
    ("country", "timestamp"),
    [pytest.param("FR", MINUTE, id="same country"), pytest.param("BR", 11 * MINUTE, id="too far apart")],
)
def test_should_not_report_what_is_usual(payments: Any, withdrawals: Any, reports: Any, country: str, timestamp: int) -> None:
    payments.pipe_input("card-1", {"country": "FR", "amount": 40}, 0)
    withdrawals.pipe_input("card-1", {"country": country, "amount": 500}, timestamp)
    payments.pipe_input("card-2", {"country": "FR", "amount": 1}, timestamp + 2 * MINUTE)
    assert reports.is_empty
