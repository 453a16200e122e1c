from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Consumed, Serdes, StreamsBuilder, StreamsConfig, TopologyError
from penstock.client.preparation import Prepared, prepare

CONFIG = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})


def prepared(counts: Mapping[str, int]) -> Prepared:
    """An application that reads `orders` by its name, and what a pattern matches."""
    text = Consumed(Serdes.string(), Serdes.string())
    builder = StreamsBuilder()
    for source in ("orders", re.compile("tenant-.*")):
        builder.stream(source, text).foreach(lambda key, value: None)
    admin: Any = SimpleNamespace(partition_counts=lambda: counts)
    return prepare(builder.build(), CONFIG, admin)


THERE = {"orders": 2, "tenant-a": 1, "tenant-b": 1, "other": 1}


def without(topic: str) -> dict[str, int]:
    return {name: count for name, count in THERE.items() if name != topic}


def test_should_fit_the_topics_it_was_made_for() -> None:
    found = prepared(THERE)
    assert not found.outdated_by(THERE)
    assert not found.outdated_by(without("other"))
    assert not found.missing(THERE)


@pytest.mark.parametrize("counts", [{**THERE, "tenant-c": 1}, {**THERE, "tenant-a": 3}, {**THERE, "orders": 3}])
def test_should_be_outdated_by_a_topic_that_is_new_or_has_grown(counts: Mapping[str, int]) -> None:
    assert prepared(THERE).outdated_by(counts)


def test_should_go_on_without_a_topic_that_only_a_pattern_matched() -> None:
    found = prepared(THERE)
    assert found.missing(without("tenant-b")) == {"tenant-b"}
    assert found.outdated_by(without("tenant-b"))
    assert prepared(without("tenant-b")).external_topics == ("orders", "tenant-a")


def test_should_refuse_to_go_on_without_a_topic_that_a_source_names() -> None:
    found = prepared(THERE)
    assert [topic for topic in THERE if found.is_matched(topic)] == ["tenant-a", "tenant-b"]
    with pytest.raises(TopologyError, match="The input topic orders was deleted"):
        found.outdated_by({"tenant-a": 1, "tenant-b": 1})


@pytest.mark.parametrize("topic", ["orders", "tenant-a"])
def test_should_refuse_a_topic_that_has_shrunk(topic: str) -> None:
    large = dict.fromkeys(THERE, 3)
    with pytest.raises(TopologyError, match=f"The input topic {topic} has 1 partitions now"):
        prepared(large).outdated_by({**large, topic: 1})
