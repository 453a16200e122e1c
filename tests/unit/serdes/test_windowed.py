import pytest

from penstock.errors import ConfigError, SerializationError
from penstock.hashing import default_partition
from penstock.serdes.serde import Serdes
from penstock.serdes.windowed import (
    FullTimeWindowedSerde,
    SessionWindowedDeserializer,
    TimeWindowedDeserializer,
    TimeWindowedSerializer,
    WindowedSerdes,
    WindowedStreamPartitioner,
    is_windowed_serializer,
    time_window_for_size,
)
from penstock.windows import MAX_TIMESTAMP, SessionWindow, TimeWindow, Window, Windowed

TIME = WindowedSerdes.time_windowed(Serdes.string(), 10)
SESSION = WindowedSerdes.session_windowed(Serdes.string())


class Defaults:
    key_serde = Serdes.string()


def test_should_write_key_and_window_start():
    data = TIME.serializer("topic", Windowed("key", TimeWindow(50, 60)))
    assert data.hex() == "6b65790000000000000032"
    assert TIME.deserializer("topic", data) == Windowed("key", TimeWindow(50, 60))


def test_should_write_session_end_before_its_start():
    data = SESSION.serializer("topic", Windowed("key", SessionWindow(50, 100)))
    assert data.hex() == "6b657900000000000000640000000000000032"
    found = SESSION.deserializer("topic", data)
    assert found == Windowed("key", SessionWindow(50, 100))
    assert type(found.window) is SessionWindow


def test_should_read_the_keys_of_a_changelog():
    data = bytes.fromhex("6b6579 0000000000000032 00000000")
    assert TIME.for_changelog().deserializer("topic", data) == Windowed("key", Window(50, 60))


def test_should_read_empty_bytes_as_nothing():
    assert TIME.deserializer("topic", b"") is None
    assert SESSION.deserializer("topic", b"") is None


def test_should_end_at_the_largest_timestamp_where_the_size_is_not_known():
    serde = WindowedSerdes.time_windowed(Serdes.string())
    assert serde.deserializer("topic", bytes.fromhex("6b65790000000000000032")).window.end == MAX_TIMESTAMP
    assert time_window_for_size(MAX_TIMESTAMP - 1, 10).end == MAX_TIMESTAMP


@pytest.mark.parametrize("data", [b"short", bytes.fromhex("6b6579 ffffffffffffffff")])
def test_should_refuse_bytes_that_are_no_windowed_key(data):
    for serde in (TIME, SESSION):
        with pytest.raises(SerializationError, match="orders"):
            serde.deserializer("orders", data)


def test_should_refuse_a_null_key_within_a_window():
    with pytest.raises(SerializationError, match="null"):
        TIME.serializer("topic", Windowed(None, Window(0, 1)))


def test_should_accept_durations_and_serde_names():
    assert WindowedSerdes.time_windowed("string", 10) == TIME
    assert FullTimeWindowedSerde(Serdes.string(), 10) == TIME
    with pytest.raises(ConfigError, match="window_size"):
        WindowedSerdes.time_windowed(Serdes.string(), -1)


def test_should_take_the_default_key_serde_where_none_is_given():
    serializer, read, read_session = (
        TimeWindowedSerializer(None),
        TimeWindowedDeserializer(None, 10),
        SessionWindowedDeserializer(None),
    )
    for half in (serializer, read, read_session):
        half.set_if_unset(Defaults)
    windowed = Windowed("k", Window(3, 13))
    assert read("topic", serializer("topic", windowed)) == windowed


def test_should_partition_by_the_key_without_its_window():
    partitioner = WindowedStreamPartitioner(TIME.serializer)
    for start in range(20):
        windowed = Windowed("key", Window(start, start + 10))
        assert partitioner("topic", windowed, None, 7) == default_partition(b"key", 7)
    assert is_windowed_serializer(SESSION.serializer)
    assert not is_windowed_serializer(Serdes.string().serializer)
