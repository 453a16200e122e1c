"""Kafka Streams' names of keys."""

from __future__ import annotations

import pytest

from penstock import ConfigError, StreamsConfig
from penstock.config.constants import ConfigConstants
from penstock.config.keys import KEYS

REQUIRED = {StreamsConfig.APPLICATION_ID_CONFIG: "app", StreamsConfig.BOOTSTRAP_SERVERS_CONFIG: "localhost:1"}


def test_should_know_every_key_that_has_a_constant() -> None:
    constants = {value for name, value in vars(ConfigConstants).items() if name.endswith("_CONFIG")}
    assert len(constants) > 60
    assert constants <= set(KEYS)


def test_should_set_keys_by_their_constants() -> None:
    guarantee = {StreamsConfig.PROCESSING_GUARANTEE_CONFIG: StreamsConfig.EXACTLY_ONCE_V2}
    config = StreamsConfig({**REQUIRED, **guarantee, StreamsConfig.consumer_prefix("fetch.min.bytes"): 5})
    assert config["processing.guarantee"] == "exactly_once_v2"
    assert config.originals["consumer.fetch.min.bytes"] == 5


@pytest.mark.parametrize(
    ("helper", "key"),
    [
        (StreamsConfig.consumer_prefix, "consumer.x"),
        (StreamsConfig.main_consumer_prefix, "main.consumer.x"),
        (StreamsConfig.restore_consumer_prefix, "restore.consumer.x"),
        (StreamsConfig.global_consumer_prefix, "global.consumer.x"),
        (StreamsConfig.producer_prefix, "producer.x"),
        (StreamsConfig.admin_client_prefix, "admin.x"),
        (StreamsConfig.topic_prefix, "topic.x"),
        (StreamsConfig.client_tag_prefix, "client.tag.x"),
    ],
)
def test_should_give_the_keys_of_clients(helper: object, key: str) -> None:
    assert helper("x") == key  # type: ignore[operator]


def test_should_write_records_to_repartition_topics_in_a_streams_group() -> None:
    streams = {**REQUIRED, StreamsConfig.GROUP_PROTOCOL_CONFIG: "STREAMS"}
    assert StreamsConfig(streams)["group.protocol"] == "streams"
    assert StreamsConfig(streams)["repartition.format"] == "records"
    assert StreamsConfig({**REQUIRED, "group.protocol": "classic"})["repartition.format"] == "blocks"
    with pytest.raises(ConfigError, match=r"'blocks' is not allowed with group.protocol = streams: members in Java cannot"):
        StreamsConfig({**streams, "repartition.format": "blocks"})
