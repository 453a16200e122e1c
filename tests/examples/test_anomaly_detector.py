from penstock import MockProcessorContext, Record, Serdes, Stores, TopologyTestDriver
from penstock_examples.anomaly_detector import Detector, topology

MINUTE = 60_000


def test_should_tell_a_reading_that_is_far_from_the_usual_and_a_sensor_that_falls_silent() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        readings = driver.create_input_topic("readings", text, Serdes.double())
        anomalies = driver.create_output_topic("anomalies", text, text)
        for second in range(20):
            readings.pipe_input("boiler", 20.0 + second % 3, 1_000 * second)
        assert anomalies.is_empty
        readings.pipe_input("boiler", 95.0, 30_000)
        assert anomalies.read_key_values() == [("boiler", "95 is far from the usual 20.9")]
        readings.pipe_input("pump", 1.0, 6 * MINUTE)
        assert anomalies.read_key_values() == [("boiler", "nothing heard since 30000")]
        readings.pipe_input("pump", 1.0, 8 * MINUTE)
        assert anomalies.is_empty


def test_should_not_judge_before_it_knows_the_sensor() -> None:
    context = MockProcessorContext()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("sensors"), Serdes.string(), Serdes.json())
    sensors = store.with_logging_disabled().build()
    sensors.init(context.get_state_store_context(), sensors)
    context.add_state_store(sensors)
    detector = Detector()
    detector.init(context)
    for value in (1.0, 1000.0, 1.0):
        detector.process(Record("pump", value, 0))
    assert context.forwarded() == []
