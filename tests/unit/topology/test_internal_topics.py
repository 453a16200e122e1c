from __future__ import annotations

from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.errors import TopologyError
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.internal_topics import (
    ChangelogTopicConfig,
    InternalTopicProperties,
    VersionedChangelogTopicConfig,
    WindowedChangelogTopicConfig,
    changelog_topic,
    internal_topics,
    validate_topic_name,
)
from penstock.topology.specs import Subtopology
from tests.unit.topology.cases import Echo, FakeStoreBuilder, FakeVersionedStoreBuilder, FakeWindowStoreBuilder


def _plans(*stores: FakeStoreBuilder, partitions: int | None = None) -> list[Subtopology]:
    builder = InternalTopologyBuilder()
    builder.add_source(None, "s", None, None, None, "t", "u")
    builder.add_internal_topic("x-repartition", InternalTopicProperties(partitions))
    builder.add_sink("k", "x-repartition", None, None, None, "s")
    builder.add_source(None, "r", None, None, None, "x-repartition")
    builder.add_processor("p", Echo, "r")
    for store in stores:
        builder.add_state_store(store, "p")
    return builder.subtopologies("app")


def test_should_size_topics_after_what_is_upstream() -> None:
    topics = internal_topics(_plans(FakeStoreBuilder("st")), {"t": 2, "u": 5})
    assert {name: topic.partitions for name, topic in topics.items()} == {"app-x-repartition": 5, "app-st-changelog": 5}


def test_should_keep_a_fixed_number_of_partitions() -> None:
    topics = internal_topics(_plans(FakeStoreBuilder("st"), partitions=3), {"t": 2, "u": 5})
    assert {name: topic.partitions for name, topic in topics.items()} == {"app-x-repartition": 3, "app-st-changelog": 3}
    assert topics["app-x-repartition"].enforce_partitions


def test_should_put_the_users_settings_over_the_librarys() -> None:
    store = FakeStoreBuilder("st").with_logging_enabled({"min.insync.replicas": 2, "segment.ms": 1})
    config = {"topic.segment.ms": 7, "topic.segment.bytes": 9, "topic.ignored": None, "other": 1}
    topics = internal_topics(_plans(store), {"t": 1, "u": 1}, config)
    assert topics["app-x-repartition"].configs == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "9",
        "segment.ms": "7",
    }
    assert topics["app-st-changelog"].configs == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "2",
        "segment.bytes": "9",
        "segment.ms": "1",
    }


@pytest.mark.parametrize(
    "config",
    [
        {"windowstore.changelog.additional.retention.ms": 10, "topic.retention.ms": 1},
        StreamsConfig.partial({"windowstore.changelog.additional.retention.ms": 10, "topic.retention.ms": 1}),
    ],
)
def test_should_keep_a_windowed_changelog_longer_than_the_store(config: Any) -> None:
    own = FakeWindowStoreBuilder("own", 5000).with_logging_enabled({"retention.ms": 77})
    topics = internal_topics(_plans(FakeWindowStoreBuilder("win", 5000), own), {"t": 1, "u": 1}, config)
    assert topics["app-win-changelog"].configs["retention.ms"] == "5010"
    assert topics["app-win-changelog"].configs["cleanup.policy"] == "compact,delete"
    assert topics["app-own-changelog"].configs["retention.ms"] == "77"


def test_should_not_compact_a_versioned_changelog_before_the_history_has_run_out() -> None:
    own = FakeVersionedStoreBuilder("own", 5000).with_logging_enabled({"min.compaction.lag.ms": 77})
    topics = internal_topics(_plans(FakeVersionedStoreBuilder("ver", 5000), own), {"t": 1, "u": 1})
    assert topics["app-ver-changelog"].configs["min.compaction.lag.ms"] == str(86_400_000 + 5000)
    assert topics["app-own-changelog"].configs["min.compaction.lag.ms"] == "77"


@pytest.mark.parametrize("store", [FakeWindowStoreBuilder("st", 2**63 - 1), FakeVersionedStoreBuilder("st", 2**63 - 1)])
def test_should_stop_at_the_largest_long(store: FakeStoreBuilder) -> None:
    configs = changelog_topic("app-st-changelog", store).properties({}, 86_400_000)
    assert str(2**63 - 1) in configs.values()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250, "a\n"])
def test_should_refuse_a_name_that_kafka_refuses(name: str) -> None:
    with pytest.raises(TopologyError, match="not allowed"):
        validate_topic_name(name)


def test_should_refuse_a_store_whose_changelog_cannot_be_named() -> None:
    with pytest.raises(TopologyError, match="my store"):
        _plans(FakeStoreBuilder("my store"))


@pytest.mark.parametrize("partitions", [0, -1])
def test_should_refuse_less_than_one_partition(partitions: int) -> None:
    with pytest.raises(TopologyError, match="at least 1"):
        InternalTopicProperties(partitions)


def test_should_tell_the_kinds_of_stores_apart() -> None:
    string = Serdes.string()
    window = Stores.window_store_builder(Stores.persistent_window_store("st", 5000, 1000), string, string)
    session = Stores.session_store_builder(Stores.in_memory_session_store("st", 7000), string, string)
    versioned = Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("st", 9000), string, string)
    plain = Stores.key_value_store_builder(Stores.in_memory_key_value_store("st"), string, string)
    assert changelog_topic("c", window) == WindowedChangelogTopicConfig("c", {}, retention_ms=5000)
    assert changelog_topic("c", session) == WindowedChangelogTopicConfig("c", {}, retention_ms=7000)
    assert changelog_topic("c", versioned) == VersionedChangelogTopicConfig("c", {}, min_compaction_lag_ms=9000)
    assert changelog_topic("c", plain) == ChangelogTopicConfig("c", {})
