"""What serdes of the user's own are given, and when: None, headers, settings."""

from __future__ import annotations

import pickle

import pytest
from pyspark import cloudpickle

from penstock import (
    ConfigError,
    Consumed,
    Deserializer,
    Grouped,
    Materialized,
    Produced,
    Serde,
    Serdes,
    Serializer,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    TopologyTestDriver,
    WindowedSerdes,
)
from penstock.batches.record_batch import RawBatch, RecordBatch
from penstock.batches.serdes import deserialize_column, serialize_column
from penstock.handlers import DefaultProductionExceptionHandler
from penstock.ids import TaskId
from penstock.metrics.registry import Metrics
from penstock.runtime.collector import RecordCollector
from penstock.runtime.task_metrics import TaskMetrics
from penstock.serdes.contract import as_deserializer, as_serializer, wants_headers
from penstock.windows import TimeWindow, Windowed


class Shouting(Serde[str]):
    """A serde with methods of its own that calls the constructor with them."""

    def __init__(self):
        super().__init__(self.serialize, self.deserialize)

    def serialize(self, topic, value):
        return value.upper().encode()

    def deserialize(self, topic, data):
        return data.decode()


class Plain(Serde[str]):
    def serialize(self, topic, value):
        return value.encode()

    def deserialize(self, topic, data):
        return data.decode()


class JavaLike(Serde[str]):
    def serializer(self):
        return Signing()

    def deserializer(self):
        return Checking()


class Signing(Serializer[str]):
    def serialize(self, topic, value, headers=None):
        headers.append(("signed-for", topic.encode()))
        return value.encode()


class Checking(Deserializer[str]):
    def deserialize(self, topic, data, headers=None):
        return f"{data.decode()}, {dict(headers or ()).get('signed-for', b'nobody').decode()}"


class Configured(Serde[str]):
    seen: list = []  # noqa: RUF012  (all objects of the class tell here)

    def configure(self, configs, is_key):
        self.suffix = configs["greeting.suffix"]
        Configured.seen.append(("configured", self.suffix, is_key))

    def serialize(self, topic, value):
        return f"{value}{self.suffix}".encode()

    def deserialize(self, topic, data):
        return data.decode()

    def close(self):
        Configured.seen.append(("closed",))


signing = Serde(Signing(), Checking())


@pytest.mark.parametrize("serde", [Shouting(), Plain(), JavaLike(), signing, Serdes.serde(lambda t, v: v, lambda t, d: d)])
def test_should_show_serdes_with_methods_of_their_own(serde):
    assert "Serde" in repr(serde) or repr(serde) == f"{type(serde).__name__}()"
    assert repr(WindowedSerdes.time_windowed(serde, 10)).startswith("WindowedSerdes.time_windowed(")


@pytest.mark.parametrize("serde", [Shouting(), Plain(), JavaLike()])
def test_should_keep_windows_and_grouped_tables_with_serdes_of_the_users_own(serde):
    builder = StreamsBuilder()
    records = builder.stream("in", Consumed(serde, serde))
    windowed = records.group_by_key(Grouped(None, serde, serde)).windowed_by(TimeWindows(10, grace=0))
    windowed.reduce(max, Materialized("maxima", serde, serde))
    table = builder.table("table", Consumed(serde, serde))
    grouped = table.group_by(lambda key, value: (value, key), Grouped("by-value", serde, serde))
    grouped.count(Materialized("counts", serde)).to_stream().to("out", Produced(serde, Serdes.long()))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", serde, serde).pipe_input("k", "v")
        driver.create_input_topic("table", serde, serde).pipe_input("k", "v")
        assert [count for _, count in driver.create_output_topic("out", serde, Serdes.long()).read_key_values()] == [1]


def test_should_never_hand_none_to_a_serde_that_does_not_ask_for_it():
    half = as_serializer(Plain())
    assert half("topic", None) is None
    assert half("topic", "a") == b"a"
    assert as_deserializer(Plain())("topic", None) is None
    assert list(serialize_column(half, "topic", ["a", None])) == [b"a", None]
    assert list(deserialize_column(as_deserializer(Plain()), "topic", [None, b"a"])) == [None, "a"]
    assert Signing()("topic", None) is None
    assert Serdes.list_of(Plain()).serializer("topic", ["a", None]) is not None


def test_should_hand_none_to_a_serde_that_asks_for_it():
    class Total(Plain):
        handles_none = True

        def serialize(self, topic, value):
            return b"nothing" if value is None else value.encode()

        def deserialize(self, topic, data):
            return "nothing" if data is None else data.decode()

    assert as_serializer(Total())("topic", None) == b"nothing"
    assert as_deserializer(Total())("topic", None) == "nothing"
    assert list(serialize_column(as_serializer(Total()), "topic", [None])) == [b"nothing"]
    assert list(deserialize_column(as_deserializer(Total()), "topic", [None])) == ["nothing"]


def test_should_find_out_by_the_signature_who_takes_headers():
    assert wants_headers(as_serializer(lambda topic, value, headers: b""))
    assert wants_headers(as_serializer(lambda topic, value, *, headers: b""))
    assert wants_headers(as_serializer(lambda a, b, c: b""))
    assert wants_headers(as_serializer(Signing()))
    assert not wants_headers(as_serializer(lambda topic, value, encoding="utf-8": value.encode(encoding)))
    assert not wants_headers(as_serializer(lambda *arguments: b""))
    assert not wants_headers(as_serializer(Serdes.string()))
    assert as_serializer(lambda topic, value, *, headers: str(headers).encode())("topic", "a") == b"[]"


def test_should_say_how_a_half_is_written():
    with pytest.raises(ConfigError, match="come last"):
        as_serializer(lambda topic, headers, value: b"")
    with pytest.raises(ConfigError, match="has to take \\(topic, value\\)"):
        as_deserializer(lambda data: data)
    with pytest.raises(ConfigError, match="give an object of it, Plain\\(\\)"):
        as_serializer(Plain)
    with pytest.raises(TypeError, match="subclass with the methods"):
        Serde()


def test_should_write_headers_that_a_serializer_adds_and_read_them():
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), signing)).to("out", Produced(Serdes.string(), signing))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", Serdes.string(), signing).pipe_input("k", "v", headers=[("mine", b"1")])
        record = driver.create_output_topic("out", Serdes.string(), signing).read_record()
    assert record.value == "v, in, out"
    assert record.headers == (("mine", b"1"), ("signed-for", b"in"), ("signed-for", b"out"))


def test_should_write_the_same_headers_for_columns():
    raw = RawBatch("in", 0, [0, 1], [5, 6], [b"a", b"b"], [b"v", None], None)
    columns = RecordBatch(["a", "b"], ["v", None], [5, 6], None, raw)
    collector = RecordCollector(TaskId(0, 0), DefaultProductionExceptionHandler(), TaskMetrics(Metrics(), TaskId(0, 0)), None)
    assert collector.send_batch("out", columns, as_serializer(Serdes.string()), as_serializer(signing))
    (produced,), _ = collector.drain()
    assert [(r.value, r.headers) for r in produced] == [(b"v", (("signed-for", b"out"),)), (None, ())]
    assert list(deserialize_column(as_deserializer(signing), "out", [b"v"], [(("signed-for", b"x"),)])) == ["v, x"]


def test_should_hand_headers_to_the_serde_inside_a_windowed_one():
    serde = WindowedSerdes.time_windowed(signing, 10)
    headers = []
    data = as_serializer(serde)("topic", Windowed("k", TimeWindow(0, 10)), headers)
    assert headers == [("signed-for", b"topic")]
    assert as_deserializer(serde)("topic", data, headers).key == "k, topic"


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_should_send_halves_of_the_users_own_to_workers(pickler):
    for half in (as_serializer(Plain()), as_serializer(signing), as_serializer(JavaLike())):
        again = pickler.loads(pickler.dumps(half))
        assert again("topic", "a", []) == b"a"
        assert wants_headers(again) == wants_headers(half)


@pytest.mark.parametrize("value", [Configured, f"{__name__}:Configured", lambda: Configured()])
def test_should_make_and_configure_the_default_serdes(value, monkeypatch):
    if isinstance(value, str):
        monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(Configured=Configured))
    Configured.seen = []
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    config = {"default.key.serde": "string", "default.value.serde": value, "greeting.suffix": "!"}
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("k", "hello")
        assert driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_value() == "hello!"
    assert Configured.seen == [("configured", "!", False), ("closed",)]


def test_should_make_a_default_serde_once_and_not_send_it_along():
    Configured.seen = []
    config = StreamsConfig.partial({"default.key.serde": Configured, "greeting.suffix": "?"})
    assert config.default_key_serde is config.default_key_serde
    again = cloudpickle.loads(cloudpickle.dumps(config))
    assert again.default_key_serde.serializer("topic", "a") == b"a?"
    assert Configured.seen == [("configured", "?", True)] * 2


def test_should_configure_the_serdes_inside_of_lists_and_windows():
    Configured.seen = []
    settings = {"greeting.suffix": "!", "default.list.value.serde.inner": Configured, "windowed.inner.class.serde": Configured}
    listed = StreamsConfig.partial({**settings, "default.value.serde": "list"}).default_value_serde
    assert listed.serializer("topic", ["a"]).endswith(b"a!")
    java_name = "org.apache.kafka.streams.kstream.WindowedSerdes$TimeWindowedSerde"
    timed = StreamsConfig.partial({**settings, "default.key.serde": java_name, "window.size.ms": 10}).default_key_serde
    window = timed.deserializer("topic", timed.serializer("topic", Windowed("k", TimeWindow(50, 60))))
    assert window == Windowed("k!", TimeWindow(50, 60))
    session = StreamsConfig.partial({**settings, "default.key.serde": "SessionWindowedSerde"}).default_key_serde
    assert "session_windowed" in repr(session)
    assert [is_key for _, _, is_key in Configured.seen] == [False, True, True]
    with pytest.raises(ConfigError, match=r"needs window\.size\.ms"):
        _ = StreamsConfig.partial({**settings, "default.key.serde": "TimeWindowedSerde"}).default_key_serde


def test_should_leave_an_object_as_its_owner_has_configured_it():
    Configured.seen = []
    config = StreamsConfig.partial({"default.key.serde": Configured(), "greeting.suffix": "?"})
    assert config.default_key_serde is config["default.key.serde"]
    config.close_default_serdes()
    assert Configured.seen == []


def test_should_say_which_setting_a_serde_could_not_be_configured_with():
    with pytest.raises(ConfigError, match=r"default\.key\.serde = .*could not be configured.*greeting\.suffix"):
        _ = StreamsConfig.partial({"default.key.serde": Configured}).default_key_serde


def test_should_refuse_pickle_with_the_reason():
    with pytest.raises(ConfigError, match="runs code from its bytes"):
        Serdes.pickle()
    with pytest.raises(ConfigError, match=r"default\.value\.serde = 'pickle' is refused: .*Serdes\.json"):
        _ = StreamsConfig.partial({"default.value.serde": "pickle"}).default_value_serde
