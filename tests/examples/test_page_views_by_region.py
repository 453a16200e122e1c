from penstock import Serdes, TopologyTestDriver
from penstock_examples.page_views_by_region import topology

MINUTE = 60_000


def test_should_count_views_per_region_in_every_window_they_fall_into() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        users = driver.create_input_topic("user-regions", text, text)
        views = driver.create_input_topic("page-views", text, text)
        counts = driver.create_output_topic("views-by-region", text, Serdes.long())
        users.pipe_input("ada", "europe", 0)
        views.pipe_input("ada", "/home", 5 * MINUTE)
        views.pipe_input("ada", "/shop", 6 * MINUTE)
        views.pipe_input("bob", "/home", 6 * MINUTE)
        found = counts.read_key_values_to_map()
    # Windows of five minutes that start every minute: a view falls into five of them.
    assert found[f"europe@{MINUTE}"] == 1
    assert [found[f"europe@{start * MINUTE}"] for start in (2, 3, 4, 5, 6)] == [2, 2, 2, 2, 1]
    assert [found[f"unknown@{start * MINUTE}"] for start in (2, 6)] == [1, 1]


def test_should_use_the_region_the_user_has_when_the_view_comes() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        users = driver.create_input_topic("user-regions", text, text)
        views = driver.create_input_topic("page-views", text, text)
        counts = driver.create_output_topic("views-by-region", text, Serdes.long())
        users.pipe_input("ada", "europe", 0)
        views.pipe_input("ada", "/home", 1)
        users.pipe_input("ada", "asia", 2)
        views.pipe_input("ada", "/home", 3)
        assert counts.read_key_values_to_map() == {"europe@0": 1, "asia@0": 1}
