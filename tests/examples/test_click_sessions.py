from penstock import Serdes, TopologyTestDriver
from penstock_examples.click_sessions import topology

MINUTE = 60_000


def test_should_write_a_session_once_when_it_is_over() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        clicks = driver.create_input_topic("clicks", text, text)
        sessions = driver.create_output_topic("sessions", text, Serdes.json())
        clicks.pipe_input("ada", "/home", 0)
        clicks.pipe_input("ada", "/shop", 20 * MINUTE)
        clicks.pipe_input("ada", "/home", 45 * MINUTE)
        assert sessions.is_empty
        clicks.pipe_input("bob", "/home", 81 * MINUTE)
        assert sessions.read_key_values() == [("ada", {"clicks": 3, "pages": ["/home", "/shop"], "seconds": 45 * 60})]


def test_should_merge_two_sessions_when_a_late_click_joins_them() -> None:
    text = Serdes.string()
    with TopologyTestDriver(topology()) as driver:
        clicks = driver.create_input_topic("clicks", text, text)
        sessions = driver.create_output_topic("sessions", text, Serdes.json())
        clicks.pipe_input("ada", "/home", 0)
        clicks.pipe_input("ada", "/cart", 34 * MINUTE)
        clicks.pipe_input("ada", "/shop", 10 * MINUTE)
        clicks.pipe_input("bob", "/home", 120 * MINUTE)
        assert sessions.read_key_values() == [("ada", {"clicks": 3, "pages": ["/cart", "/home", "/shop"], "seconds": 34 * 60})]
