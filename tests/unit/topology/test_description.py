from __future__ import annotations

import re
from typing import Any

from penstock.topology.description import GlobalStore, Processor, Sink, Source, TopologyDescription
from penstock.topology.topology import Topology
from tests.unit.topology.cases import Echo, FakeStoreBuilder, NamedExtractor


def _pipeline() -> Topology:
    topology = Topology().add_source("source", "t1", "t2").add_processor("processor", Echo, "source")
    topology.add_state_store(FakeStoreBuilder("store"), "processor").add_sink("sink", "out", "processor")
    return topology.add_global_store(FakeStoreBuilder("global"), "gs", "gt", "gp", Echo)


def by_region(key: Any, value: Any, context: Any) -> str:
    return "region"


def test_should_offer_value_objects() -> None:
    description = _pipeline().describe()
    (subtopology,) = description.subtopologies
    source, processor, sink = subtopology.nodes
    assert isinstance(source, Source)
    assert isinstance(processor, Processor)
    assert isinstance(sink, Sink)
    assert (subtopology.id, source.topic_set, source.topic_pattern) == (0, frozenset({"t1", "t2"}), None)
    assert (source.predecessors, source.successors) == ((), (processor,))
    assert processor.stores == {"store"}
    assert (processor.predecessors, processor.successors) == ((source,), (sink,))
    assert (sink.topic, sink.topic_name_extractor, sink.predecessors) == ("out", None, (processor,))
    (global_store,) = description.global_stores
    assert (global_store.id, global_store.source.name, global_store.processor.stores) == (1, "gs", frozenset({"global"}))


def test_should_compare_by_value() -> None:
    description = _pipeline().describe()
    assert description == _pipeline().describe()
    assert hash(description) == hash(_pipeline().describe())
    assert description != _pipeline().add_sink("another", "out2", "processor").describe()
    assert description != "a text"


def test_should_tell_different_nodes_apart() -> None:
    assert Source("a", ["t"]) == Source("a", ["t"])
    assert Source("a", ["t"]) != Source("a", ["u"])
    assert Source("a", None, re.compile("t")) == Source("a", None, re.compile("t"))
    assert Source("a", None, re.compile("t")) != Source("a", None, re.compile("u"))
    assert Processor("a", ["x", "y"]) == Processor("a", ["y", "x"])
    assert Processor("a", []) != Processor("b", [])
    assert Sink("a", "t") != Sink("a", None, by_region)
    assert GlobalStore("s", "p", "st", "t", 0) == GlobalStore("s", "p", "st", "t", 1)
    assert Processor("a", []) != Source("a", ["a"])


def test_should_describe_nothing() -> None:
    assert str(TopologyDescription([], [])) == "Topologies:\n "


def test_should_show_the_extractor_of_a_dynamic_sink_by_name_or_by_text() -> None:
    topology = Topology().add_source("s", "t")
    topology.add_sink("function", by_region, "s").add_sink("lambda", lambda key, value, context: "x", "s")
    topology.add_sink("object", NamedExtractor("my text"), "s").add_sink("method", NamedExtractor("").__call__, "s")
    lines = [line.strip() for line in str(topology.describe()).splitlines() if "Sink" in line]
    assert lines == [
        "Sink: function (extractor class: by_region)",
        "Sink: lambda (extractor class: <lambda>)",
        "Sink: method (extractor class: __call__)",
        "Sink: object (extractor class: my text)",
    ]
    (subtopology,) = topology.describe().subtopologies
    sink = next(node for node in subtopology.nodes if node.name == "function")
    assert isinstance(sink, Sink)
    assert (sink.topic, sink.topic_name_extractor) == (None, by_region)


def test_should_show_a_pattern_as_it_was_written() -> None:
    text = str(Topology().add_source("s", re.compile(r"orders-[a-z]+\.eu", re.IGNORECASE)).describe())
    assert r"Source: s (topics: orders-[a-z]+\.eu)" in text


def test_should_describe_streams_that_split_and_merge_many_times() -> None:
    topology = Topology().add_source("m0", "t")
    for number in range(1, 60):
        topology.add_processor(f"a{number}", Echo, f"m{number - 1}").add_processor(f"b{number}", Echo, f"m{number - 1}")
        topology.add_processor(f"m{number}", Echo, f"a{number}", f"b{number}")
    assert "Processor: m59" in str(topology.describe())


def test_should_have_a_short_repr() -> None:
    description = _pipeline().describe()
    assert (
        repr(description)
        == "TopologyDescription([Subtopology(0, ['source', 'processor', 'sink'])], [GlobalStore(1, 'gs', 'gp')])"
    )
    assert repr(description.subtopologies[0].nodes[2]) == "<Sink: sink (topic: out) <-- processor>"
