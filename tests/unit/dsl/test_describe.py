"""Names of nodes, stores and topics, and the use of indices: equal to Kafka Streams', with and without optimisations."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.dsl.builder import StreamsBuilder
from penstock.errors import TopologyError
from tests.unit.dsl.programs import PROGRAMS

OPTIMIZATIONS = ("none", "all", "reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")


def _expected() -> dict[tuple[str, str], str]:
    """What Kafka Streams 4.3 prints; a description that an optimisation leaves as it is stands there once."""
    text = Path(__file__).with_name("describe.txt").read_text(encoding="utf-8")
    sections = [section.partition("\n") for section in text.split("=== ")[1:]]
    by_case = {(header.split()[0], header.split()[1]): body.rstrip("\n") for header, _, body in sections}
    return {
        (optimization, name): by_case.get((optimization, name), by_case["none", name])
        for optimization in OPTIMIZATIONS
        for name in PROGRAMS
    }


EXPECTED = _expected()


@pytest.mark.parametrize(("optimization", "name"), EXPECTED, ids="/".join)
def test_should_describe_as_kafka_streams_does(optimization: str, name: str) -> None:
    builder = StreamsBuilder()
    PROGRAMS[name](builder)
    if EXPECTED[optimization, name] == "ERROR":
        with pytest.raises(TopologyError):
            builder.build({"topology.optimization": optimization})
        return
    topology = builder.build({"topology.optimization": optimization})
    assert str(topology.describe()).rstrip("\n") == EXPECTED[optimization, name]


def test_should_merge_repartitions_after_process_where_the_fix_is_on() -> None:
    builder = StreamsBuilder({"__enable.process.processValue.fix__": True})
    PROGRAMS["process-then-group"](builder)
    text = str(builder.build({"topology.optimization": "all"}).describe())
    assert text.count("Sink: ") == 1


def test_should_describe_the_same_when_built_twice() -> None:
    builder = StreamsBuilder()
    PROGRAMS["wordcount"](builder)
    first = str(builder.build().describe())
    assert str(builder.build().describe()) == first
