"""The same topologies built here and with Kafka Streams 4.3 (OpenJDK 17), whose answers are kept in golden.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.topology.internal_topics import internal_topics
from penstock.topology.topology import Topology
from tests.unit.topology.cases import build_case

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("golden.json").read_text())
VALID = [case for case in CASES if "text" in case]
INVALID = [case for case in CASES if "error" in case]


def _name(case: dict[str, Any]) -> str:
    return str(case["name"])


def _topology(case: dict[str, Any]) -> Topology:
    return build_case(case["ops"])


@pytest.mark.parametrize("case", VALID, ids=_name)
def test_should_describe_as_kafka_streams_does(case: dict[str, Any]) -> None:
    assert str(_topology(case).describe()) == case["text"]


@pytest.mark.parametrize("case", INVALID, ids=_name)
def test_should_refuse_what_kafka_streams_refuses(case: dict[str, Any]) -> None:
    with pytest.raises(TopologyError):
        _topology(case)


@pytest.mark.parametrize("case", VALID, ids=_name)
def test_should_number_and_fill_subtopologies_as_kafka_streams_does(case: dict[str, Any]) -> None:
    plans = _topology(case).internal_topology_builder.subtopologies("app")
    found = {
        str(plan.id): {
            "nodes": [node.name for node in plan.nodes],
            "source_topics": sorted(plan.source_topics),
            "sink_topics": sorted(plan.sink_topics),
        }
        for plan in plans
        if plan.source_topics
    }
    expected = {
        number: {key: plan[key] for key in ("nodes", "source_topics", "sink_topics")}
        for number, plan in case["subtopologies"].items()
    }
    assert found == expected


@pytest.mark.parametrize("case", VALID, ids=_name)
def test_should_open_stores_and_name_changelogs_as_kafka_streams_does(case: dict[str, Any]) -> None:
    builder = _topology(case).internal_topology_builder
    whole, global_topology = builder.build_topology("app"), builder.global_topology("app")
    changelogs = {**whole.store_to_changelog, **(global_topology.store_to_topic if global_topology else {})}
    assert list(whole.stores) == case["stores"]
    assert changelogs == case["changelogs"]


@pytest.mark.parametrize("case", VALID, ids=_name)
def test_should_configure_internal_topics_as_kafka_streams_does(case: dict[str, Any]) -> None:
    plans = [plan for plan in _topology(case).internal_topology_builder.subtopologies("app") if plan.source_topics]
    topics = internal_topics(plans, {topic: 7 for plan in plans for topic in plan.source_topics})
    expected = {
        name: configs
        for plan in case["subtopologies"].values()
        for kind in ("repartition", "changelog")
        for name, configs in plan[kind].items()
    }
    assert {name: topic.configs for name, topic in topics.items()} == expected
    assert all(topic.partitions == 7 for topic in topics.values())
    groups = [sorted(group) for plan in plans for group in plan.copartition_groups]
    assert sorted(groups) == sorted(case["copartition"])
