from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import TopologyError
from penstock.serdes.serde import Serdes
from penstock.topology.offset_reset import AutoOffsetReset
from penstock.topology.specs import SinkSpec, SourceSpec
from penstock.topology.topology import Topology
from tests.unit.topology.cases import Echo, FakeStoreBuilder, SupplierWithStores


def _only(topology: Topology, name: str) -> Any:
    return topology.internal_topology_builder.registry.nodes[name]


def test_should_accept_topics_as_names_and_lists() -> None:
    topology = Topology().add_source("a", "t1", "t2").add_source("b", ["t3", "t4"]).add_source("c", "t5", ("t6",))
    assert [_only(topology, name).topics for name in "abc"] == [("t1", "t2"), ("t3", "t4"), ("t5", "t6")]


def test_should_accept_a_pattern() -> None:
    source = _only(Topology().add_source("a", re.compile("orders-.*")), "a")
    assert isinstance(source, SourceSpec)
    assert source.pattern == re.compile("orders-.*")
    assert source.topics == ()


@pytest.mark.parametrize("topics", [("t", re.compile("x")), (re.compile("x"), re.compile("y"))])
def test_should_refuse_a_pattern_beside_other_topics(topics: tuple[Any, ...]) -> None:
    with pytest.raises(TopologyError, match="one pattern"):
        Topology().add_source("a", *topics)


@pytest.mark.parametrize("topics", [(), ([],)])
def test_should_refuse_a_source_without_topics(topics: tuple[Any, ...]) -> None:
    with pytest.raises(TopologyError, match="cannot be empty"):
        Topology().add_source("a", *topics)


@pytest.mark.parametrize("topic", [None, 7, "", re.compile(b"x")])
def test_should_refuse_what_is_not_a_topic(topic: Any) -> None:
    with pytest.raises(TopologyError):
        Topology().add_source("a", topic)


@pytest.mark.parametrize("name", [None, "", 3])
def test_should_refuse_what_is_not_a_name(name: Any) -> None:
    with pytest.raises(TopologyError, match="non-empty string"):
        Topology().add_source(name, "t")


def test_should_take_a_serde_for_a_serializer_and_a_deserializer() -> None:
    topology = Topology().add_source("s", "t", key_deserializer=Serdes.string(), value_deserializer=Serdes.long().deserializer)
    topology.add_sink("k", "o", "s", key_serializer=Serdes.string(), value_serializer=Serdes.long().serializer)
    source, sink = _only(topology, "s"), _only(topology, "k")
    assert source.key_deserializer("t", b"a") == "a"
    assert source.value_deserializer("t", bytes(7) + b"\x05") == 5
    assert sink.key_serializer("o", "a") == b"a"
    assert sink.value_serializer("o", 5) == bytes(7) + b"\x05"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("earliest", AutoOffsetReset.earliest()),
        ("latest", AutoOffsetReset.latest()),
        ("none", AutoOffsetReset.none()),
        (timedelta(minutes=1), AutoOffsetReset.by_duration(60_000)),
        (AutoOffsetReset.latest(), AutoOffsetReset.latest()),
    ],
)
def test_should_keep_the_offset_reset(given: Any, expected: AutoOffsetReset | None) -> None:
    topology = Topology().add_source("s", "t", offset_reset=given)
    assert topology.internal_topology_builder.offset_reset_strategy("t", "app") == expected


@pytest.mark.parametrize("given", ["soonest", 5, "by_duration"])
def test_should_refuse_an_unknown_offset_reset(given: Any) -> None:
    with pytest.raises(TopologyError, match="offset reset"):
        Topology().add_source("s", "t", offset_reset=given)


def test_should_refuse_a_negative_duration_of_an_offset_reset() -> None:
    with pytest.raises(TopologyError, match="negative"):
        AutoOffsetReset.by_duration(timedelta(seconds=-1))


def test_should_instantiate_an_extractor_given_as_a_class() -> None:
    class Extractor:
        def __call__(self, record: Any, partition_time: int) -> int:
            return 0

    assert isinstance(_only(Topology().add_source("s", "t", timestamp_extractor=Extractor), "s").timestamp_extractor, Extractor)


def test_should_tell_a_topic_from_an_extractor() -> None:
    topology = (
        Topology().add_source("s", "t").add_sink("fixed", "o", "s").add_sink("dynamic", lambda key, value, context: "o", "s")
    )
    fixed, dynamic = _only(topology, "fixed"), _only(topology, "dynamic")
    assert isinstance(fixed, SinkSpec)
    assert (fixed.topic, fixed.topic_extractor) == ("o", None)
    assert dynamic.topic is None
    assert dynamic.topic_extractor(None, None, None) == "o"


@pytest.mark.parametrize("topic", [None, "", 7])
def test_should_refuse_a_sink_without_a_topic(topic: Any) -> None:
    with pytest.raises(TopologyError, match="topic of sink k"):
        Topology().add_source("s", "t").add_sink("k", topic, "s")


def test_should_add_and_connect_the_stores_of_a_supplier() -> None:
    stores = [FakeStoreBuilder("a"), FakeStoreBuilder("b")]
    topology = Topology().add_source("s", "t").add_processor("p", SupplierWithStores(stores), "s")
    (plan,) = topology.internal_topology_builder.subtopologies("app")
    assert dict(plan.stores) == {"a": stores[0], "b": stores[1]}


def test_should_accept_a_supplier_without_stores() -> None:
    class WithNone(Echo):
        stores = None

    Topology().add_source("s", "t").add_processor("p", WithNone, "s").add_processor("q", lambda: Echo(), "p")


def test_should_bring_processors_that_share_a_store_into_one_subtopology() -> None:
    shared = FakeStoreBuilder("shared")
    topology = Topology().add_source("s1", "t1").add_source("s2", "t2")
    topology.add_processor("p1", SupplierWithStores([shared]), "s1").add_processor("p2", SupplierWithStores([shared]), "s2")
    assert len(topology.internal_topology_builder.subtopologies("app")) == 1


def test_should_refuse_a_supplier_that_returns_the_same_processor_again() -> None:
    processor = Echo()
    with pytest.raises(TopologyError, match="new object each time"):
        Topology().add_source("s", "t").add_processor("p", lambda: processor, "s")


@pytest.mark.parametrize("supplier", [None, "Echo", Echo()])
def test_should_refuse_what_is_not_a_supplier(supplier: Any) -> None:
    with pytest.raises(TopologyError, match="supplier of processor p"):
        Topology().add_source("s", "t").add_processor("p", supplier, "s")


def test_should_refuse_what_is_not_a_store_builder() -> None:
    with pytest.raises(TopologyError, match="StoreBuilder"):
        Topology().add_state_store("counts")  # type: ignore[arg-type]


def test_should_change_nothing_when_it_refuses() -> None:
    topology = Topology().add_source("s", "t")
    before = str(topology.describe())
    refused: list[Callable[[], Any]] = [
        lambda: topology.add_source("x", "free", "t"),
        lambda: topology.add_processor("x", Echo, "s", "unknown"),
        lambda: topology.add_state_store(FakeStoreBuilder("st"), "unknown"),
        lambda: topology.add_read_only_state_store(FakeStoreBuilder("st"), "x", "t", "y", Echo),
        lambda: topology.add_global_store(FakeStoreBuilder("st"), "x", "g", "s", Echo),
    ]
    for bad in refused:
        with pytest.raises(TopologyError):
            bad()
    assert str(topology.describe()) == before
    topology.add_source("x", "free").add_processor("y", Echo, "x").add_state_store(FakeStoreBuilder("st"), "y")


@pytest.mark.parametrize("method", ["add_global_store", "add_read_only_state_store"])
def test_should_take_a_store_feed_in_javas_order_or_by_name(method: str) -> None:
    string, long = Serdes.string(), Serdes.long()
    named = {"topic": "t", "processor_name": "p", "state_update_supplier": Echo}
    serdes = {"key_deserializer": string, "value_deserializer": long}
    texts = set()
    for arguments, options in (
        (("t", "p", Echo), serdes),
        ((string, long, "t", "p", Echo), {}),
        ((None, string, long, "t", "p", Echo), {}),
        ((string, long), named),
        ((), {**named, **serdes}),
    ):
        topology = Topology()
        getattr(topology, method)(FakeStoreBuilder("st"), "s", *arguments, **options)
        source = _only(topology, "s")
        assert source.key_deserializer == string.deserializer
        assert source.value_deserializer == long.deserializer
        texts.add(str(topology.describe()))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), {}),
        (("t", "p"), {}),
        (("t", "p", Echo), {"topic": "u"}),
        (("t", "p", Echo), {"deserializer": None}),
        (("t", "p", Echo, 1), {}),
    ],
)
def test_should_refuse_an_incomplete_or_contradictory_store_feed(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TopologyError, match="store read by s"):
        Topology().add_global_store(FakeStoreBuilder("st"), "s", *arguments, **named)


def test_should_turn_off_the_changelog_of_stores_filled_from_a_topic() -> None:
    local, everywhere = FakeStoreBuilder("local"), FakeStoreBuilder("everywhere")
    topology = (
        Topology().add_read_only_state_store(local, "s", "t", "p", Echo).add_global_store(everywhere, "gs", "gt", "gp", Echo)
    )
    builder = topology.internal_topology_builder
    (plan,) = builder.subtopologies("app")
    global_topology = builder.global_topology("app")
    assert not local.logging_enabled
    assert not everywhere.logging_enabled
    assert (plan.store_to_changelog, plan.changelog_topics) == ({"local": "t"}, {})
    assert builder.offset_reset_strategy("t", "app") == AutoOffsetReset.earliest()
    assert plan.global_stores == ("everywhere",)
    assert global_topology is not None
    assert global_topology.store_to_topic == {"everywhere": "gt"}
    assert global_topology.reprocess_on_restore == {"everywhere"}
    assert [node.name for node in global_topology.nodes] == ["gs", "gp"]


@pytest.mark.parametrize("parent", ["gs", "gp"])
def test_should_refuse_a_child_of_a_global_store(parent: str) -> None:
    topology = Topology().add_global_store(FakeStoreBuilder("g"), "gs", "gt", "gp", Echo)
    with pytest.raises(TopologyError, match="global store"):
        topology.add_processor("p", Echo, parent)


def test_should_refuse_a_local_store_for_the_processor_of_a_global_store() -> None:
    topology = Topology().add_global_store(FakeStoreBuilder("g"), "gs", "gt", "gp", Echo)
    with pytest.raises(TopologyError, match="global store"):
        topology.add_state_store(FakeStoreBuilder("st"), "gp")
