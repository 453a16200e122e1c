import pickle

import pytest

from penstock.errors import ConfigError, StreamsError
from penstock.record import RawRecord
from penstock.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    resolve_timestamp_extractor,
)


def record(timestamp):
    return RawRecord("topic", 3, 7, timestamp, None, None)


@pytest.mark.parametrize("kind", [FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp])
def test_should_take_the_records_own_timestamp(kind):
    assert kind()(record(42), 5) == 42


def test_should_fail_on_a_negative_timestamp_and_say_what_can_be_done():
    with pytest.raises(StreamsError, match=r"topic-3 offset 7.*LogAndSkipOnInvalidTimestamp"):
        FailOnInvalidTimestamp()(record(-1), 5)


def test_should_skip_a_negative_timestamp(caplog):
    assert LogAndSkipOnInvalidTimestamp()(record(-5), 5) == -5
    assert "topic=[topic] partition=[3] offset=[7] timestamp=[-5]" in caplog.text


def test_should_use_partition_time_for_a_negative_timestamp():
    assert UsePartitionTimeOnInvalidTimestamp()(record(-1), 5) == 5
    with pytest.raises(StreamsError, match="could not infer"):
        UsePartitionTimeOnInvalidTimestamp()(record(-1), -1)


def test_should_use_the_wall_clock():
    assert WallclockTimestampExtractor()(record(0), 0) > 1_600_000_000_000


def extract(record, partition_time):
    return 99


class Java:
    def extract(self, record, partition_time):
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (FailOnInvalidTimestamp, 42),
        (FailOnInvalidTimestamp(), 42),
        ("LogAndSkipOnInvalidTimestamp", 42),
        ("org.apache.kafka.streams.processor.FailOnInvalidTimestamp", 42),
        ("penstock.timestamps:FailOnInvalidTimestamp", 42),
        (extract, 99),
        (Java(), 7),
        (Java, 7),
    ],
)
def test_should_resolve_what_a_configuration_can_hold(value, expected):
    assert resolve_timestamp_extractor(value)(record(42), -1) == expected


@pytest.mark.parametrize("bad", ["nonsense", "no.such.thing", 3, object()])
def test_should_name_the_key_of_a_value_that_is_no_extractor(bad):
    with pytest.raises(ConfigError, match=r"default\.timestamp\.extractor"):
        resolve_timestamp_extractor(bad, "default.timestamp.extractor")


def test_should_compare_and_pickle():
    assert pickle.loads(pickle.dumps(WallclockTimestampExtractor())) == WallclockTimestampExtractor()
    assert FailOnInvalidTimestamp() == FailOnInvalidTimestamp() != LogAndSkipOnInvalidTimestamp()
    assert repr(FailOnInvalidTimestamp()) == "FailOnInvalidTimestamp()"
