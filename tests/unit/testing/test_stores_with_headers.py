"""Stores that keep headers, through the test driver: whole, with timestamps, or plain."""

from __future__ import annotations

from penstock import (
    AggregationWithHeaders,
    Consumed,
    JoinWindows,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Window,
    Windowed,
)

TEXT, LONG = Serdes.string(), Serdes.long()
HEADERS = {"dsl.store.format": "HEADERS"}


def test_should_show_key_value_stores_with_headers_in_three_ways() -> None:
    builder = StreamsBuilder(HEADERS)
    builder.stream("in", Consumed(TEXT, TEXT)).group_by_key().count("counts")
    with TopologyTestDriver(builder.build(), HEADERS) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 5)
        whole = driver.get_timestamped_key_value_store_with_headers("counts")
        assert whole.get("a") == ValueTimestampHeaders(1, 5, ())
        stamped, plain = driver.get_timestamped_key_value_store("counts"), driver.get_key_value_store("counts")
        assert stamped.get("a") == ValueAndTimestamp(1, 5)
        assert list(stamped.all()) == [("a", ValueAndTimestamp(1, 5))]
        assert (plain.get("a"), list(plain.all()), plain.get("b")) == (1, [("a", 1)], None)
        plain.put("b", 7)
        stamped.put("c", ValueAndTimestamp(8, 9))
        assert whole.get("b") == ValueTimestampHeaders(7, -1, ())
        assert whole.get("c") == ValueTimestampHeaders(8, 9, ())


def test_should_show_window_and_session_stores_with_headers() -> None:
    builder = StreamsBuilder(HEADERS)
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key()
    grouped.windowed_by(TimeWindows(10, grace=0)).count("windows")
    grouped.windowed_by(SessionWindows(10, grace=0)).count("sessions")
    with TopologyTestDriver(builder.build(), HEADERS) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x", 5)
        assert driver.get_timestamped_window_store_with_headers("windows").fetch("a", 0) == ValueTimestampHeaders(1, 5, ())
        assert list(driver.get_timestamped_window_store("windows").fetch("a", 0, 9)) == [(0, ValueAndTimestamp(1, 5))]
        assert driver.get_window_store("windows").fetch("a", 0) == 1
        session = Windowed("a", Window(5, 5))
        assert list(driver.get_session_store_with_headers("sessions").fetch("a")) == [(session, AggregationWithHeaders(1))]
        sessions = driver.get_session_store("sessions")
        assert list(sessions.fetch("a")) == [(session, 1)]
        assert sessions.fetch_session("a", 5, 5) == 1
        sessions.put(session, 3)
        assert sessions.fetch_session("a", 5, 5) == 3
        sessions.remove(session)
        assert list(sessions.find_sessions("a", 0, 10)) == []


def test_should_have_no_stores_with_headers_where_none_are_kept() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(TEXT, TEXT)).group_by_key()
    grouped.count("counts")
    grouped.windowed_by(TimeWindows(10, grace=0)).count("windows")
    grouped.windowed_by(SessionWindows(10, grace=0)).count("sessions")
    with TopologyTestDriver(builder.build()) as driver:
        assert driver.get_timestamped_key_value_store_with_headers("counts") is None
        assert driver.get_timestamped_window_store_with_headers("windows") is None
        assert driver.get_session_store_with_headers("sessions") is None


def test_should_show_the_stores_of_a_join_with_plain_values() -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("left", Consumed(TEXT, TEXT)), builder.stream("right", Consumed(TEXT, TEXT))
    joined = left.join(right, lambda a, b: a + b, JoinWindows(10, grace=0), StreamJoined(TEXT, TEXT, TEXT, store_name="kept"))
    joined.to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("left", TEXT, TEXT).pipe_input("a", "x", 5)
        store = driver.get_window_store("kept-this-join-store")
        assert list(store.fetch("a", 0, 10)) == [(5, "x")]
        assert [value for _, value in store.all()] == ["x"]
