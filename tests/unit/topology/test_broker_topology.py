from __future__ import annotations

import re
from typing import Any

import pytest

from penstock import Consumed, Grouped, Joined, Materialized, Produced, Repartitioned, Serdes, StreamsBuilder, Topology
from penstock.config.streams_config import StreamsConfig
from penstock.errors import ConfigError
from penstock.topology.broker_topology import BrokerSubtopology, CopartitionGroup, broker_topology

string = Serdes.string()
TEXT: Consumed[str, str] = Consumed(string, string)


def told(topology: Topology, **settings: Any) -> tuple[BrokerSubtopology, ...]:
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1", **settings})
    builder = topology.internal_topology_builder
    builder.rewrite_topology(config)
    return broker_topology(builder.subtopologies("app", {}), config)


def test_should_tell_sources_repartitions_and_changelogs_as_java_does() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines", TEXT).group_by(lambda _, word: word, Grouped(key_serde=string, value_serde=string))
    words.count(Materialized("counts")).to_stream().to("out", Produced(string, Serdes.long()))
    before, behind = told(builder.build(), **{"topic.segment.ms": 1000})
    assert (before.id, before.sources, before.repartition_sinks) == ("0", ("lines",), ("app-counts-repartition",))
    assert (before.repartition_sources, before.changelogs) == ((), ())
    (repartition,) = behind.repartition_sources
    assert (behind.sources, behind.inputs) == ((), ("app-counts-repartition",))
    assert (repartition.partitions, repartition.replication_factor) == (0, -1)
    assert dict(repartition.configs) == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
        "segment.ms": "1000",
    }
    assert list(repartition.configs) == sorted(repartition.configs)
    (changelog,) = behind.changelogs
    assert (changelog.name, changelog.partitions) == ("app-counts-changelog", 0)
    assert dict(changelog.configs)["cleanup.policy"] == "compact"


def test_should_tell_which_topics_need_as_many_partitions_as_each_other() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", TEXT)
    customers = builder.table("customers", TEXT)
    orders.join(customers, lambda order, customer: order + customer, Joined(string, string, string)).to("out")
    (only,) = told(builder.build())
    assert only.sources == ("customers", "orders")
    assert [sorted(group.sources) for group in only.copartition_groups] == [[0, 1]]
    assert [group.repartitions for group in only.copartition_groups] == [()]


def test_should_tell_how_many_partitions_a_repartition_was_given() -> None:
    builder = StreamsBuilder()
    again = builder.stream("lines", TEXT).repartition(Repartitioned("again", string, string, number_of_partitions=7))
    again.join(builder.table("customers", TEXT), lambda left, right: left + right, Joined(string, string, string)).to("out")
    behind = next(one for one in told(builder.build()) if one.repartition_sources)
    assert behind.repartition_sources[0].partitions == 7
    assert behind.copartition_groups == (CopartitionGroup((0,), (0,)),)


def test_should_refuse_patterns_because_brokers_know_none() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("orders-.*"), TEXT).to("out")
    with pytest.raises(ConfigError, match=r"brokers of a streams group know no patterns. Name the topics, or use"):
        told(builder.build())
