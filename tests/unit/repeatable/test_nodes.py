"""What of a topology is looked into before a shuffle, and what is said of it."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import topologies as bench
from penstock import (
    Consumed,
    Deserializer,
    Grouped,
    KStream,
    Produced,
    Repartitioned,
    Serde,
    Serdes,
    StreamPartitioner,
    StreamsBuilder,
    StreamsConfig,
    TimestampExtractor,
    Topology,
)
from penstock.client.repartition_reasons import described_transports, log_transports, transports
from penstock.spark.plan import Plan, make_plan

TEXT = Serdes.string()
Lines = KStream[str, str]
EXAMPLES = sorted(file.stem for file in Path("src/penstock_examples").glob("[a-z]*.py"))


def plan_of(topology: Topology, **settings: Any) -> Plan:
    defaults = {"default.key.serde": "string", "default.value.serde": "string"}
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", **defaults, **settings})
    built = topology.internal_topology_builder
    built.rewrite_topology(config)
    subtopologies = built.subtopologies("app", {})
    return make_plan(subtopologies, {topic: 2 for s in subtopologies for topic in s.source_topics}, config)


def counted(change: Callable[[Lines], Any] = lambda lines: lines, **consumed: Any) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(**{"key_serde": TEXT, "value_serde": TEXT, **consumed}))
    change(lines).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count()
    return builder.build()


def reason_of(topology: Topology, **settings: Any) -> str:
    plan = plan_of(topology, **settings)
    assert not plan.shuffled
    return plan.reasons["app-words-repartition"]


class Stamp(Serde[str]):
    def serialize(self, topic: str, value: str) -> bytes:
        return f"{value}{time.time()}".encode()

    def deserialize(self, topic: str, data: bytes) -> str:
        return data.decode()


class Numbering(Deserializer[str]):
    def __init__(self) -> None:
        self.number = 0

    def deserialize(self, topic: str, data: bytes | None, headers: Any = None) -> str:
        self.number += 1
        return f"{self.number}"


class Clock(TimestampExtractor):
    def extract(self, record: Any, partition_time: int) -> int:
        return int(time.time() * 1000)


class ByHash(StreamPartitioner[str, str]):
    def partitions(self, topic: str, key: str, value: str, *rest: Any) -> int:
        return hash(key) % int(rest[-1])


def choose(topic: str, key: str, value: str, count: int) -> int:
    return random.randrange(count)


@dataclasses.dataclass
class Stamped:
    user: str
    at: float = 0.0

    def __post_init__(self) -> None:
        self.at = time.time()


NOT_REPEATABLE: dict[str, tuple[Topology, str]] = {
    "map": (counted(lambda s: s.map(lambda k, v: (k, v + str(random.random())))), "random.random"),
    "map_values": (counted(lambda s: s.map_values(lambda v: v + str(time.time()))), "time.time"),
    "map_values with key": (counted(lambda s: s.map_values(lambda k, v: f"{k}{id(v)}", with_key=True)), "address in memory"),
    "flat_map": (counted(lambda s: s.flat_map(lambda k, v: [(w, w) for w in set(v.split())])), "order of a set"),
    "flat_map_values": (counted(lambda s: s.flat_map_values(lambda v: set(v.split()))), "order of a set"),
    "filter": (counted(lambda s: s.filter(lambda k, v: random.random() < 0.1)), "random.random"),
    "filter_not": (counted(lambda s: s.filter_not(lambda k, v: random.random() < 0.1)), "random.random"),
    "select_key": (counted(lambda s: s.select_key(lambda k, v: hash(v))), "hash()"),
    "value deserializer": (counted(value_serde=Serdes.serde(Stamp().serialize, Numbering())), "sets self.number"),
    "type of the values": (counted(lambda s: s.map_values(str), value_serde=Serdes.json(Stamped)), "time.time"),
    "timestamp extractor": (counted(timestamp_extractor=Clock()), "time.time"),
}


@pytest.mark.parametrize("name", NOT_REPEATABLE)
def test_should_write_to_the_topic_what_may_not_repeat(name: str) -> None:
    topology, what = NOT_REPEATABLE[name]
    reason = reason_of(topology)
    assert what in reason
    assert Path(__file__).name in reason  # the line of the function, and that of the operator


def test_should_look_into_branches_and_their_predicates() -> None:
    builder = StreamsBuilder()
    branches = builder.stream("lines", Consumed(TEXT, TEXT)).split().branch(lambda k, v: random.random() < 0.5).default_branch()
    next(iter(branches.values())).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count()
    assert "random.random" in reason_of(builder.build())


@pytest.mark.parametrize(("partitioner", "what"), [(ByHash(), "hash()"), (choose, "random.randrange")])
def test_should_look_into_partitioners(partitioner: Any, what: str) -> None:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(TEXT, TEXT)).select_key(lambda _, line: line)
    lines.repartition(Repartitioned("words", TEXT, TEXT, partitioner=partitioner)).foreach(print)
    assert what in reason_of(builder.build())


def test_should_look_into_serializers_and_not_into_the_half_that_runs_behind() -> None:
    builder = StreamsBuilder()
    lines = builder.stream("lines", Consumed(TEXT, TEXT))
    lines.group_by(lambda _, word: word, Grouped("words", TEXT, Stamp())).count()
    assert "time.time" in reason_of(builder.build())
    assert plan_of(counted(value_serde=Stamp())).shuffled  # its deserializer repeats


def test_should_look_into_default_serdes() -> None:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda _, word: word, Grouped("words")).count()
    assert "time.time" in reason_of(builder.build(), **{"default.value.serde": Stamp()})


def test_should_not_mind_what_changes_no_record() -> None:
    seen: list[Any] = []

    def watched(lines: Lines) -> Lines:
        lines.foreach(lambda k, v: seen.append(random.random()))
        return lines.peek(lambda k, v: seen.append(time.time()))

    assert plan_of(counted(watched)).shuffled


def test_should_not_mind_chance_behind_the_repartition() -> None:
    builder = StreamsBuilder()
    words = builder.stream("lines", Consumed(TEXT, TEXT)).group_by(lambda _, word: word, Grouped("words", TEXT, TEXT))
    words.count().to_stream().map_values(lambda count: str(time.time())).to("out", Produced(TEXT, TEXT))
    assert plan_of(builder.build()).shuffled


def test_should_name_operator_function_lines_and_what() -> None:
    reason = reason_of(counted(lambda lines: lines.map_values(stamped)))
    line = stamped.__code__.co_firstlineno + 1
    assert reason.startswith("sub-topology 0 comes before it, and stamped (")
    assert f"test_nodes.py:{line}) uses time.time, which is a clock; it is given to KSTREAM-MAPVALUES-0000000001" in reason


def stamped(value: str) -> str:
    return f"{value}{time.time()}"


def test_should_say_what_processors_of_the_users_own_may_do() -> None:
    reason = reason_of(counted(lambda lines: lines.process(dict)))  # type: ignore[arg-type]
    assert "KSTREAM-PROCESSOR-0000000001" in reason
    assert "may do anything" in reason


def test_should_warn_where_the_shuffle_is_forced(caplog: pytest.LogCaptureFixture) -> None:
    plan = plan_of(counted(lambda lines: lines.map_values(stamped)), **{"repartition.transport": "shuffle"})
    assert plan.shuffled
    with caplog.at_level(logging.INFO):
        log_transports(plan)
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert "stamped" in told.message
    assert "KSTREAM-MAPVALUES-0000000001" in told.message
    assert "although" in transports(plan, "app")["words-repartition"]


def test_should_log_the_reason_for_the_topic(caplog: pytest.LogCaptureFixture) -> None:
    plan = plan_of(counted(lambda lines: lines.map_values(stamped)))
    with caplog.at_level(logging.INFO):
        log_transports(plan)
    (told,) = caplog.records
    assert told.message.startswith("repartition app-words-repartition goes through its topic: sub-topology 0")


def test_should_describe_how_repartitions_go_without_a_broker() -> None:
    assert described_transports(counted(), {}) == {"words-repartition": "goes through Spark's shuffle"}
    told = described_transports(counted(lambda lines: lines.map_values(stamped)), {})["words-repartition"]
    assert "goes through its topic" in told
    assert "time.time" in told
    assert described_transports(counted(), {"repartition.transport": "topic"}) == {"words-repartition": "goes through its topic"}


SHUFFLED = {"top_n_per_window": {"by-article-repartition"}, "wordcount": {"words-repartition"}}


@pytest.mark.parametrize("name", EXAMPLES)
def test_should_shuffle_in_the_examples_what_repeats(name: str) -> None:
    plan = plan_of(importlib.import_module(f"penstock_examples.{name}").topology())
    assert {topic.removeprefix("app-") for topic in plan.shuffled} == SHUFFLED.get(name, set())


@pytest.mark.parametrize(
    ("name", "shuffled"),
    [("wordcount", True), ("named", True), ("wordcount-opaque", True), ("count", False), ("join-table", False)],
)
def test_should_shuffle_what_is_measured(name: str, shuffled: bool) -> None:
    plan = plan_of(bench.named(name, "in", "other", "out"))
    assert (bool(plan.shuffled), plan.reasons) == (shuffled, {})
