"""Topics an application needs and makes, and what it says when they do not fit."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, NewPartitions, ResourceType

from penstock import BrokerError, KafkaStreams, PenstockError, ProcessorStateError, TopologyError
from penstock.client.inside import inside
from penstock.ids import TopicPartition
from penstock.kafka import admin
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import keyed, texts, topics
from tests.integration.topologies import count_by_key, joined, pipe, word_count

Run = Callable[..., Any]


def config_of(kafka: Kafka, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {key: entry.value for key, entry in kafka.admin.describe_configs([resource])[resource].result(LIMIT).items()}


def test_should_create_internal_topics_with_kafka_streams_names_and_configs(kafka: Kafka, run: Run) -> None:
    lines, out = topics(kafka, "lines", "out", partitions=3)
    application = unique("internal")
    run(word_count(lines, out), {"application.id": application, "topic.segment.bytes": 1_048_576}, wait=False)
    changelog, repartition = f"{application}-counts-changelog", f"{application}-counts-repartition"
    assert kafka.topics()[changelog] == kafka.topics()[repartition] == 3
    assert config_of(kafka, changelog)["cleanup.policy"] == "compact"
    assert config_of(kafka, repartition)["cleanup.policy"] == "delete"
    assert config_of(kafka, repartition)["retention.ms"] == "-1"
    assert config_of(kafka, repartition)["message.timestamp.type"] == "CreateTime"
    assert config_of(kafka, changelog)["segment.bytes"] == "1048576"


def test_should_know_the_racks_of_partitions_and_run_with_them(kafka: Kafka, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    asked = admin.Admin({"bootstrap.servers": kafka.bootstrap_servers})
    assert asked.racks([source]) == {TopicPartition(source, p): frozenset({"rack-1"}) for p in (0, 1)}
    kafka.feed(source, texts(("a", "x")))
    near = {"rack.aware.assignment.strategy": "min_traffic", "client.rack": "rack-1", "num.standby.replicas": 1}
    run(count_by_key(source, out), {"application.id": unique("racks"), **near})
    assert kafka.read(out, 1)
    assert "racks do not count" not in caplog.text


def _status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=LIMIT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code


def test_should_warn_of_a_join_whose_topics_were_written_with_different_partitioners(
    kafka: Kafka, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    orders, customers, out = topics(kafka, "orders", "customers", "out", partitions=3)
    keys = [f"k{n:03}" for n in range(200)]
    kafka.feed(orders, texts(*((key, "o") for key in keys)))
    kafka.feed(customers, texts(*((key, "c") for key in keys)), {"partitioner": "consistent_random"})  # librdkafka's own
    config = {"application.id": unique("strays"), "task.spread": "always", "application.server": "localhost:0"}
    streams = run(joined(orders, customers, out), config)
    told = f"topics {customers} and {orders} are joined, but their keys lie differently"
    wait_until(lambda: told in caplog.text, "it is told")
    assert len(kafka.read(out)) < len(keys)  # which is what it warns of
    assert caplog.text.count(told) == 1
    stores = f"http://{streams.server_host}/api/stores/right/keys"
    wait_until(lambda: _status(f"{stores}/{keys[-1]}") == 200, "the table is read")
    assert {_status(f"{stores}/{key}") for key in keys} == {200}  # wherever they lie
    assert _status(f"{stores}/nobody") == 404


def test_should_configure_a_changelog_as_its_store_says(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("store-config")
    topology = count_by_key(source, out, topic_config={"min.cleanable.dirty.ratio": "0.1"})
    run(topology, {"application.id": application}, wait=False)
    assert config_of(kafka, f"{application}-counts-changelog")["min.cleanable.dirty.ratio"] == "0.1"


def test_should_have_no_changelog_where_logging_is_disabled(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("no-log")
    kafka.feed(source, keyed("aa"))
    run(count_by_key(source, out, logging=False), {"application.id": application})
    assert len(kafka.read(out, 2)) == 2
    assert not [topic for topic in kafka.topics() if topic.startswith(application)]


def test_should_purge_what_was_read_of_a_repartition_topic(kafka: Kafka, run: Run) -> None:
    lines, out = topics(kafka, "lines", "out", partitions=1)
    application = unique("purge")
    kafka.feed(lines, texts(*((str(i), "a b c") for i in range(50))))
    config = {"application.id": application, "repartition.transport": "topic", "repartition.purge.interval.ms": 200}
    run(word_count(lines, out), config)
    kafka.read(out, 150)
    repartition = f"{application}-counts-repartition"
    kafka.feed(lines, texts(("x", "d")))
    wait_until(lambda: not kafka.read(repartition) or len(kafka.read(repartition)) < 10, "the repartition topic is purged")


def test_should_refuse_topics_that_are_not_co_partitioned(kafka: Kafka, run: Run) -> None:
    (left,), (right,) = topics(kafka, "left", partitions=2), topics(kafka, "right", partitions=3)
    with pytest.raises(TopologyError, match="co-partitioned"):
        run(joined(left, right, left), {"application.id": unique("copartition")})


def test_should_say_which_input_topic_is_missing(kafka: Kafka, run: Run) -> None:
    missing = unique("missing")
    with pytest.raises(TopologyError, match=missing):
        run(pipe(missing, missing), {"application.id": unique("app")})


def test_should_say_that_the_brokers_do_not_answer(kafka: Kafka, spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT", 2.0)
    config = {"application.id": unique("app"), "bootstrap.servers": "127.0.0.1:1", "state.dir": str(tmp_path)}
    streams = KafkaStreams(pipe("a", "b"), config, spark=spark)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1.*bootstrap\.servers"):
        streams.start()
    assert streams.state.name == "ERROR"


def test_should_refuse_a_partition_count_that_has_changed(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    application = unique("grown")
    run(count_by_key(source, out), {"application.id": application}).close()
    kafka.admin.create_partitions([NewPartitions(source, 3)])[source].result(LIMIT)
    wait_until(lambda: kafka.topics()[source] == 3, "the topic has grown")
    with pytest.raises(TopologyError, match=r"counts-changelog exists with 1 partitions but needs 3"):
        run(count_by_key(source, out), {"application.id": application})


def test_should_stop_with_a_clear_error_when_an_input_topic_is_deleted(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    streams = run(pipe(source, out), {"application.id": unique("deleted")})
    kafka.delete(source)
    wait_until(lambda: streams.state.name == "ERROR", "the application notices")
    assert isinstance(streams.failure, PenstockError)
    assert source in str(streams.failure)


def test_should_read_on_without_a_deleted_topic_that_only_a_pattern_matched(kafka: Kafka, run: Run) -> None:
    """Also long before `metadata.max.age.ms` has passed."""
    tag, (out,) = unique("tenant"), topics(kafka, "out", partitions=1)
    kafka.create(f"{tag}-a", f"{tag}-b", partitions=1)
    streams = run(pipe(re.compile(f"{tag}-.*"), out), {"application.id": unique("deleted")})
    kafka.feed(f"{tag}-a", texts(("a", "one")))
    kafka.feed(f"{tag}-b", texts(("b", "two")))
    kafka.read(out, 2)
    kafka.delete(f"{tag}-b")
    wait_until(lambda: {p.topic for p in inside(streams).fetched} == {f"{tag}-a"}, "the topic is given up")
    kafka.feed(f"{tag}-a", texts(("a", "three")))
    assert sorted(message.value or b"" for message in kafka.read(out, 3)) == [b"ONE", b"THREE", b"TWO"]
    assert streams.failure is None


def test_should_say_that_the_state_folder_cannot_be_used(kafka: Kafka, spark: Any, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out")
    (tmp_path / "taken").write_text("a file")
    config = {"application.id": "a", "bootstrap.servers": kafka.bootstrap_servers, "state.dir": str(tmp_path / "taken")}
    with pytest.raises(ProcessorStateError, match="taken"):
        KafkaStreams(count_by_key(source, out), config, spark=spark).start()
