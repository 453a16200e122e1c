from penstock import Serdes, TopologyTestDriver
from penstock_examples.wordcount import topology


def test_should_count_words_in_any_case() -> None:
    with TopologyTestDriver(topology()) as driver:
        lines = driver.create_input_topic("lines", Serdes.string(), Serdes.string())
        counts = driver.create_output_topic("word-counts", Serdes.string(), Serdes.long())
        lines.pipe_value("all streams lead to Kafka")
        lines.pipe_value("hello kafka streams")
        assert counts.read_key_values_to_map() == {"all": 1, "streams": 2, "lead": 1, "to": 1, "kafka": 2, "hello": 1}
        assert driver.get_key_value_store("counts").get("kafka") == 2
