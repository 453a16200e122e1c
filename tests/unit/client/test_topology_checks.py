"""Topologies that `KafkaStreams(…)` refuses before it starts, as the test driver does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, KafkaStreams, Materialized, Produced, StreamsBuilder, StreamsError, Topology, TopologyError

APPLICATION = {"application.id": "app", "bootstrap.servers": "nowhere:1"}
HERE = Path(__file__).name


def _source(builder: StreamsBuilder) -> None:
    builder.stream("in", Consumed(value_serde=str)).to("out", Produced(str, str))


def _sink(builder: StreamsBuilder) -> None:
    builder.stream("in", Consumed(str, str)).map_values(lambda text: len(text)).to("out")


def _store(builder: StreamsBuilder) -> None:
    counts: Any = Materialized("lengths", key_serde=str)
    builder.stream("in", Consumed(str, str)).group_by_key().aggregate(lambda: 0, lambda key, text, sum_: sum_ + len(text), counts)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (_source, r"key serdes for source node KSTREAM-SOURCE-0000000000 \(added at .*{}:\d+\)"),
        (_sink, r"value serdes for sink node KSTREAM-SINK-0000000002 \(added at .*{}:\d+\)"),
        (_store, r"value serdes for store lengths \(added at .*{}:\d+\)"),
    ],
)
def test_should_refuse_a_missing_serde_and_name_its_line(program: Any, message: str) -> None:
    builder = StreamsBuilder()
    program(builder)
    with pytest.raises(StreamsError, match=message.format(HERE)):
        KafkaStreams(builder.build(), APPLICATION)
    KafkaStreams(builder.build(), {**APPLICATION, "default.key.serde": "string", "default.value.serde": "json"})


@pytest.mark.parametrize("topology", [StreamsBuilder().build(), Topology()])
def test_should_refuse_an_empty_topology(topology: Topology) -> None:
    with pytest.raises(TopologyError, match="The topology is empty: it must read at least one topic"):
        KafkaStreams(topology, APPLICATION)
