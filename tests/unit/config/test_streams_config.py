import logging
import pickle
import warnings
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.config.keys import KEYS, REQUIRED
from penstock.config.streams_config import StreamsConfig, UnknownConfigWarning, verify_topology_optimization_configs
from penstock.errors import ConfigError
from penstock.serdes.serde import Serdes
from penstock.timestamps import FailOnInvalidTimestamp, WallclockTimestampExtractor

BASE = {"application.id": "app", "bootstrap.servers": "a:9092,b:9093"}


def with_keys(values):
    return StreamsConfig({**BASE, **values})


def test_should_have_kafka_streams_defaults():
    found = with_keys({})
    expected = {
        "num.standby.replicas": 0,
        "acceptable.recovery.lag": 10_000,
        "statestore.cache.max.bytes": 10 * 1024 * 1024,
        "max.task.idle.ms": 0,
        "max.warmup.replicas": 2,
        "processing.guarantee": "at_least_once",
        "replication.factor": -1,
        "security.protocol": "PLAINTEXT",
        "task.timeout.ms": 300_000,
        "topology.optimization": "none",
        "group.protocol": "classic",
        "buffered.records.per.partition": 1000,
        "repartition.purge.interval.ms": 30_000,
        "poll.ms": 100,
        "probing.rebalance.interval.ms": 600_000,
        "state.cleanup.delay.ms": 600_000,
        "windowstore.changelog.additional.retention.ms": 86_400_000,
        "request.timeout.ms": 40_000,
        "metrics.recording.level": "INFO",
        "rack.aware.assignment.strategy": "none",
        "default.key.serde": None,
        "application.server": "",
    }
    assert {key: found[key] for key in expected} == expected


def test_should_differ_from_kafka_streams_where_the_documents_say_so():
    assert with_keys({})["commit.interval.ms"] == 100
    assert with_keys({"processing.guarantee": "exactly_once_v2"})["commit.interval.ms"] == 100
    assert with_keys({})["num.stream.threads"] is None
    assert with_keys({"num.stream.threads": "auto"})["num.stream.threads"] is None


def test_should_document_every_key_with_a_default_that_is_allowed():
    for key in KEYS.values():
        assert key.doc.endswith("."), key.name
        if key.default is not REQUIRED and key.default is not None:
            assert key.parse(key.default) == key.default, key.name


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("poll.ms", "50", 50),
        ("poll.ms", timedelta(seconds=1), 1000),
        ("commit.interval.ms", 0, 0),
        ("num.stream.threads", " 4 ", 4),
        ("enable.metrics.push", "False", False),
        ("processing.guarantee", "EXACTLY_ONCE_V2", "exactly_once_v2"),
        ("security.protocol", "sasl_ssl", "SASL_SSL"),
        ("bootstrap.servers", ["a:1", "b:2"], ("a:1", "b:2")),
        ("bootstrap.servers", "[::1]:9092", ("[::1]:9092",)),
        ("state.dir", Path("/tmp/x"), "/tmp/x"),
        ("topology.optimization", "merge.repartition.topics, reuse.ktable.source.topics",
         "merge.repartition.topics, reuse.ktable.source.topics"),
        ("application.server", "host:80", "host:80"),
        ("upgrade.from", "3.4", "3.4"),
        ("repartition.transport", "shuffle", "shuffle"),
        ("task.spread", "always", "always"),
    ],
)  # fmt: skip
def test_should_parse_values(key, given, expected):
    assert with_keys({key: given})[key] == expected


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("processing.guarantee", "exactly_once", "at_least_once, exactly_once_v2"),
        ("num.standby.replicas", -1, "at least 0"),
        ("num.stream.threads", 1.5, "integer"),
        ("num.stream.threads", True, "integer"),
        ("poll.ms", "soon", "milliseconds"),
        ("max.warmup.replicas", 0, "at least 1"),
        ("probing.rebalance.interval.ms", 59_999, "60000"),
        ("topology.optimization", "all,none", "none, all"),
        ("topology.optimization", "faster", "reuse.ktable.source.topics"),
        ("application.id", "has space", "letters"),
        ("application.id", "..", "letters"),
        ("application.id", "", "letters"),
        ("bootstrap.servers", "nowhere", "host:port"),
        ("bootstrap.servers", "", "host:port"),
        ("bootstrap.servers", "a:99999", "host:port"),
        ("application.server", "nowhere", "host:port"),
        ("metrics.recording.level", "LOUD", "INFO, DEBUG, TRACE"),
        ("repartition.transport", "pigeon", "auto, shuffle, topic"),
        ("task.spread", "never", "auto, always"),
        ("enable.metrics.push", "yes", "true or false"),
        ("metrics.port", 70_000, "65535"),
        ("default.key.serde", 3, "import path"),
        ("statestore.cache.max.bytes", 2**63, "64 bits"),
        ("upgrade.from", "0.9", "2.4"),
        ("dsl.store.format", 3, "text"),
        ("rack.aware.assignment.tags", 3, "list"),
    ],
)
def test_should_name_key_value_and_what_is_allowed(key, value, allowed):
    with pytest.raises(ConfigError) as caught:
        with_keys({key: value})
    message = str(caught.value)
    assert key in message
    assert repr(value) in message
    assert allowed in message


def test_should_need_application_id_and_bootstrap_servers():
    with pytest.raises(ConfigError, match=r"application\.id"):
        StreamsConfig({"bootstrap.servers": "a:1"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        StreamsConfig({"application.id": "a"})
    assert StreamsConfig.partial(None)["application.id"] is None
    assert StreamsConfig.partial({"poll.ms": 3})["poll.ms"] == 3
    with pytest.raises(ConfigError):
        StreamsConfig.partial({"poll.ms": -3})


def test_should_warn_about_unknown_keys_and_keep_them(caplog):
    with pytest.warns(UnknownConfigWarning, match=r"'comit\.interval\.ms'.*commit\.interval\.ms"):
        found = with_keys({"comit.interval.ms": 3})
    assert found["comit.interval.ms"] == 3
    assert "comit.interval.ms" in caplog.text


@pytest.mark.parametrize(
    "key",
    [
        "auto.offset.reset",
        "consumer.max.poll.records",
        "main.consumer.x",
        "restore.consumer.x",
        "global.consumer.x",
        "producer.acks",
        "admin.retries",
        "topic.cleanup.policy",
        "client.tag.zone",
        "spark.master",
        "sasl.username",
        "ssl.ca.location",
        "__emit.interval.ms.kstreams.windowed.aggregation__",
    ],
)
def test_should_know_the_keys_of_clients_and_spark(key):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_keys({key: "x"})[key] == "x"


def test_should_hide_secrets_where_it_is_printed():
    found = with_keys(
        {"sasl.password": "s3cret", "application.server.token": "s3cret", "sasl.jaas.config": "password=s3cret", "poll.ms": 3}
    )
    assert "s3cret" not in repr(found) + str(found)
    assert "'poll.ms': 3" in repr(found)
    assert found["sasl.password"] == "s3cret"
    with pytest.raises(ConfigError) as caught:
        with_keys({"application.server.token": 31337})
    assert "31337" not in str(caught.value)


def test_should_be_a_read_only_mapping_that_pickles():
    found = with_keys({"default.key.serde": Serdes.string()})
    assert dict(found) == {**found}
    assert "poll.ms" in found
    assert len(found) >= len(KEYS)
    with pytest.raises(TypeError):
        found["poll.ms"] = 3
    with pytest.raises(KeyError):
        found["no.such.key"]
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.originals == found.originals
    assert StreamsConfig.of(found) is found
    assert StreamsConfig.partial(found) is found
    assert StreamsConfig(found) == found


def test_should_resolve_default_serdes():
    assert with_keys({"default.key.serde": "string"}).default_key_serde == Serdes.string()
    assert with_keys({"default.value.serde": Serdes.long}).default_value_serde == Serdes.long()
    lists = with_keys({"default.value.serde": "org.apache.kafka.common.serialization.Serdes$ListSerde",
                       "default.list.value.serde.inner": "long"})  # fmt: skip
    assert lists.default_value_serde == Serdes.list_of(Serdes.long())
    with pytest.raises(ConfigError, match=r"set default\.key\.serde"):
        _ = with_keys({}).default_key_serde
    with pytest.raises(ConfigError, match=r"default\.list\.key\.serde\.inner"):
        _ = with_keys({"default.key.serde": "list"}).default_key_serde
    with pytest.raises(ConfigError, match=r"default\.value\.serde"):
        _ = with_keys({"default.value.serde": "nonsense"}).default_value_serde


def test_should_resolve_the_default_timestamp_extractor():
    assert with_keys({}).default_timestamp_extractor == FailOnInvalidTimestamp()
    found = with_keys({"default.timestamp.extractor": "WallclockTimestampExtractor"})
    assert found.default_timestamp_extractor == WallclockTimestampExtractor()


def test_should_know_the_optimisations():
    assert with_keys({}).topology_optimizations == frozenset()
    assert len(with_keys({"topology.optimization": "all"}).topology_optimizations) == 3
    assert verify_topology_optimization_configs("single.store.self.join") == {"single.store.self.join"}
    with pytest.raises(ConfigError):
        verify_topology_optimization_configs("x")


def test_should_use_deprecated_keys_where_the_new_ones_are_not_set(caplog):
    assert with_keys({"cache.max.bytes.buffering": 5}).total_cache_size == 5
    assert "deprecated" in caplog.text
    assert with_keys({"cache.max.bytes.buffering": 5, "statestore.cache.max.bytes": 7}).total_cache_size == 7
    found = with_keys({"default.deserialization.exception.handler": "log_and_continue"})
    assert found["deserialization.exception.handler"] == "log_and_continue"


def test_should_check_the_transaction_timeout_under_exactly_once():
    eos = {"processing.guarantee": "exactly_once_v2"}
    with pytest.raises(ConfigError, match=r"producer\.transaction\.timeout\.ms.*commit\.interval\.ms"):
        with_keys({**eos, "commit.interval.ms": 20_000})
    with_keys({**eos, "commit.interval.ms": 20_000, "producer.transaction.timeout.ms": 20_000})
    with pytest.raises(ConfigError, match="milliseconds"):
        with_keys({**eos, "producer.transaction.timeout.ms": "x"})


def test_should_merge_the_consumers_configs():
    found = with_keys({"consumer.fetch.min.bytes": 5, "max.partition.fetch.bytes": 9, "main.consumer.fetch.min.bytes": 6,
                       "group.instance.id": "me", "sasl.username": "u", "producer.acks": "1"})  # fmt: skip
    main = found.main_consumer_configs("app", "client", 2)
    assert main["fetch.min.bytes"] == 6
    assert main["max.partition.fetch.bytes"] == 9
    assert (main["group.id"], main["client.id"], main["group.instance.id"]) == ("app", "client", "me-2")
    assert (main["auto.offset.reset"], main["enable.auto.commit"], main["bootstrap.servers"]) == (
        "earliest",
        False,
        "a:9092,b:9093",
    )
    assert main["sasl.username"] == "u"
    assert "acks" not in main
    assert "isolation.level" not in main
    restore = found.restore_consumer_configs("client")
    assert (restore["fetch.min.bytes"], restore["auto.offset.reset"]) == (5, "none")
    assert "group.id" not in restore
    assert "group.instance.id" not in restore
    assert found.global_consumer_configs("client")["client.id"] == "client-global-consumer"


def test_should_fix_what_exactly_once_needs(caplog):
    found = with_keys({"processing.guarantee": "exactly_once_v2", "consumer.isolation.level": "read_uncommitted",
                       "consumer.enable.auto.commit": True, "producer.enable.idempotence": False,
                       "producer.linger.ms": 5})  # fmt: skip
    consumer = found.main_consumer_configs("app", "client")
    assert (consumer["isolation.level"], consumer["enable.auto.commit"]) == ("read_committed", False)
    producer = found.producer_configs("client")
    assert (producer["enable.idempotence"], producer["linger.ms"], producer["transaction.timeout.ms"]) == (True, 5, 10_000)
    assert "ignored" in caplog.text
    with pytest.raises(ConfigError, match="at most 5"):
        with_keys(
            {"processing.guarantee": "exactly_once_v2", "producer.max.in.flight.requests.per.connection": 6}
        ).producer_configs("c")


def test_should_hand_out_topic_spark_and_tag_settings():
    found = with_keys({"topic.retention.ms": 5, "spark.master": "local[2]", "client.tag.zone": "eu", "admin.retries": 3})
    assert found.topic_configs == {"retention.ms": "5"}
    assert found.spark_configs == {"spark.master": "local[2]"}
    assert found.client_tags == {"zone": "eu"}
    assert found.admin_configs("client")["retries"] == 3
    assert found.with_values({"poll.ms": 1})["poll.ms"] == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({f"client.tag.t{n}": "x" for n in range(6)}, "at most 5"),
        ({"client.tag.": "x"}, "1 to 20"),
        ({"client.tag." + "x" * 21: "x"}, "1 to 20"),
        ({"client.tag.zone": " "}, "1 to 30"),
        ({"client.tag.zone": "x" * 31}, "1 to 30"),
        ({"rack.aware.assignment.tags": "zone"}, r"set client\.tag\.zone"),
    ],
)
def test_should_check_client_tags(values, message):
    with pytest.raises(ConfigError, match=message):
        with_keys(values)


def test_should_only_log_unknown_keys_of_a_partial_configuration(caplog):
    caplog.set_level(logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert StreamsConfig.partial({"my.own": 1})["my.own"] == 1
    assert "my.own" in caplog.text


@pytest.mark.parametrize("bad", [[("a", 1)], "x", {3: 4}])
def test_should_refuse_what_is_no_mapping_of_text(bad):
    with pytest.raises(ConfigError):
        StreamsConfig(bad)


HANDLER_KEYS = (
    "deserialization.exception.handler",
    "default.deserialization.exception.handler",
    "production.exception.handler",
    "default.production.exception.handler",
    "processing.exception.handler",
)
CLASS_KEYS = (
    "default.key.serde",
    "default.value.serde",
    "default.timestamp.extractor",
    "task.assignor.class",
    "dsl.store.suppliers.class",
    "default.client.supplier",
    "processor.wrapper.class",
    "rocksdb.config.setter",
    "windowed.inner.class.serde",
)


@pytest.mark.parametrize("key", [*HANDLER_KEYS, *CLASS_KEYS])
@pytest.mark.parametrize("path", ["no.such.module.Class", "penstock:NoSuchClass", "invalid.class"])
def test_should_refuse_a_class_that_cannot_be_imported(key, path):
    with pytest.raises(ConfigError, match=rf"{key} = .*cannot import '{path}'"):
        with_keys({key: path})


@pytest.mark.parametrize("key", HANDLER_KEYS)
@pytest.mark.parametrize("name", ["log_and_contine", "org.apache.kafka.streams.errors.NoSuchHandler"])
def test_should_refuse_a_handler_that_is_not_known(key, name):
    with pytest.raises(ConfigError, match=rf"{key} = '{name}' is not allowed: expected log_and_fail, log_and_continue"):
        with_keys({key: name})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deserialization.exception.handler", "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"),
        ("processing.exception.handler", "LogAndContinueProcessingExceptionHandler"),
        ("production.exception.handler", "penstock.handlers.DefaultProductionExceptionHandler"),
        ("production.exception.handler", "penstock.handlers:DefaultProductionExceptionHandler"),
        ("default.key.serde", "org.apache.kafka.common.serialization.Serdes$LongSerde"),
        ("default.value.serde", "com.shop.StringSerde"),
        ("default.timestamp.extractor", "org.apache.kafka.streams.processor.WallclockTimestampExtractor"),
        ("task.assignor.class", "LegacyStickyTaskAssignor"),
        ("dsl.store.suppliers.class", "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"),
    ],
)
def test_should_take_the_names_of_java_and_paths_that_can_be_imported(key, value):
    assert with_keys({key: value})[key] == value


def all_client_configs(config):
    return {
        "main": config.main_consumer_configs("group", "client"),
        "restore": config.restore_consumer_configs("client"),
        "global": config.global_consumer_configs("client"),
        "producer": config.producer_configs("client"),
        "admin": config.admin_configs("client"),
    }


@pytest.mark.filterwarnings("ignore::penstock.UnknownConfigWarning")
def test_should_forward_custom_settings_without_a_prefix_to_all_clients():
    found = all_client_configs(with_keys({"custom.property.host": "host"}))
    assert {name: configs["custom.property.host"] for name, configs in found.items()} == dict.fromkeys(found, "host")


@pytest.mark.filterwarnings("ignore::penstock.UnknownConfigWarning")
def test_should_prefer_custom_settings_with_a_prefix():
    key = "custom.property.host"
    given = {key: "host0", f"consumer.{key}": "host1", f"producer.{key}": "host2", f"admin.{key}": "host3"}
    found = all_client_configs(with_keys(given))
    expected = {"main": "host1", "restore": "host1", "global": "host1", "producer": "host2", "admin": "host3"}
    assert {name: configs[key] for name, configs in found.items()} == expected


@pytest.mark.filterwarnings("ignore::penstock.UnknownConfigWarning")
def test_should_not_forward_settings_of_others_to_clients():
    found = all_client_configs(with_keys({"poll.ms": 5, "spark.ui.enabled": False, "topic.retention.ms": 1, "acks": "all"}))
    for name, configs in found.items():
        assert not {"poll.ms", "spark.ui.enabled", "topic.retention.ms"} & set(configs)
        assert ("acks" in configs) == (name == "producer")
