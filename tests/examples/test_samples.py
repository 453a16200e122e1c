import pytest

from penstock import TopologyTestDriver
from penstock_examples._samples import EXAMPLES, SAMPLES, module_of

EXPECTED = {
    "anomaly_detector": {"boiler"},
    "click_sessions": {"ada", "bob"},
    "fraud_detection": {"card-1"},
    "orders_customers": {"o1", "o2"},
    "wordcount": {"all", "hello", "kafka", "lead", "streams", "to"},
}


def test_should_have_a_sample_for_each_example() -> None:
    assert sorted(SAMPLES) == EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_should_have_something_to_show_for_its_sample(example: str) -> None:
    sample = SAMPLES[example]
    with TopologyTestDriver(module_of(example).topology()) as driver:
        for topic, key, value, seconds in sample.entries:
            driver.create_input_topic(topic, *sample.inputs[topic]).pipe_input(key, value, 1000 * seconds)
        for topic, serdes in sample.outputs.items():
            found = driver.create_output_topic(topic, *serdes).read_key_values_to_map()
            assert found
            assert set(found) == EXPECTED.get(example, set(found))
        for store in sample.stores:
            assert store in driver.get_all_state_stores()


def test_should_write_records_of_the_hour_before() -> None:
    first, *_ = SAMPLES["wordcount"].records(now_ms=10_000_000)
    assert (first.timestamp, first.value) == (3_600_000, b"All streams lead to Kafka")
