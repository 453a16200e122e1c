from penstock import Serdes, TopologyTestDriver
from penstock_examples.top_n_per_window import topology

HOUR = 3_600_000


def test_should_write_the_top_three_when_the_hour_is_over() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        views = driver.create_input_topic("article-views", text, text)
        tops = driver.create_output_topic("top-articles", Serdes.long(), Serdes.json())
        for article, times in {"kafka": 4, "spark": 3, "python": 2, "java": 1}.items():
            for view in range(times):
                views.pipe_input(f"user-{view}", article, 1_000 * view)
        assert tops.is_empty
        views.pipe_input("user-1", "kafka", HOUR + 5 * 60_000)
        assert tops.read_key_values_to_map() == {0: [["kafka", 4], ["spark", 3], ["python", 2]]}
