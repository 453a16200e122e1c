import pickle
import sys
from types import ModuleType

import pytest

from penstock import Serdes, Topology, TopologyTestDriver
from penstock.errors import ConfigError, StreamsError
from penstock.record import RawRecord
from penstock.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
    resolve_timestamp_extractor,
    uses_partition_time,
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


class Created(TimestampExtractor):
    def extract(self, record, partition_time):
        return record.value["created"]


def test_should_take_a_class_of_ones_own_as_an_extractor():
    extractor = resolve_timestamp_extractor(Created)
    assert isinstance(extractor, Created)
    assert extractor(RawRecord("topic", 0, 0, 42, None, {"created": 7}), -1) == 7
    assert not uses_partition_time(extractor)


def test_should_refuse_an_extractor_without_its_method():
    class Empty(TimestampExtractor):
        pass

    with pytest.raises(ConfigError, match=r"lacks its method extract\(record, partition_time\)"):
        resolve_timestamp_extractor(Empty)


@pytest.mark.parametrize("extractor", [Created, Created(), f"{__name__}:Created"])
def test_should_take_an_extractor_of_a_source_in_every_form(extractor, monkeypatch):
    module = ModuleType(__name__)
    module.Created = Created
    monkeypatch.setitem(sys.modules, __name__, module)
    json = Serdes.json()
    topology = Topology().add_source("s", "in", key_deserializer=json, value_deserializer=json, timestamp_extractor=extractor)
    topology.add_sink("t", "out", "s", key_serializer=json, value_serializer=json)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", json, json).pipe_input("k", {"created": 7})
        assert driver.create_output_topic("out", json, json).read_record().timestamp == 7


def test_should_name_an_extractor_in_add_source():
    topology = Topology().add_source("s", "in", timestamp_extractor="WallclockTimestampExtractor")
    (source,) = topology.internal_topology_builder.registry.sources()
    assert source.timestamp_extractor == WallclockTimestampExtractor()
