from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.errors import ConfigError, TopologyError
from penstock.processor import FixedKeyProcessor
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.specs import ProcessorSpec, SinkSpec, SourceSpec
from penstock.topology.topology import Topology
from penstock.topology.wrapping import ProcessorWrapper
from tests.unit.topology.cases import Echo, FakeStoreBuilder, FakeVersionedStoreBuilder, SupplierWithStores


def _builder(*topics: str | re.Pattern[str]) -> InternalTopologyBuilder:
    builder = InternalTopologyBuilder()
    for number, topic in enumerate(topics):
        builder.add_source(None, f"s{number}", None, None, None, topic)
    return builder


def _repartitioned(partitions: int | None = None) -> InternalTopologyBuilder:
    builder = _builder("t")
    builder.add_internal_topic("r-repartition", InternalTopicProperties(partitions))
    builder.add_sink("k", "r-repartition", None, None, None, "s0")
    builder.add_source(None, "r", None, None, None, "r-repartition")
    builder.add_processor("p", Echo, "r")
    builder.add_state_store(FakeStoreBuilder("counts"), "p")
    return builder


def test_should_prefix_internal_topics_with_the_application_id() -> None:
    first, second = _repartitioned().subtopologies("app")
    assert first.sink_topics == second.source_topics == ("app-r-repartition",)
    assert isinstance(first.nodes[1], SinkSpec)
    assert first.nodes[1].topic == "app-r-repartition"
    assert isinstance(second.nodes[0], SourceSpec)
    assert second.nodes[0].topics == ("app-r-repartition",)
    assert second.store_to_changelog == {"counts": "app-counts-changelog"}
    assert list(second.changelog_topics) == ["app-counts-changelog"]
    assert list(second.repartition_source_topics) == ["app-r-repartition"]


def test_should_use_the_application_id_that_was_set() -> None:
    builder = _repartitioned().set_application_id("app")
    assert builder.subtopologies()[1].source_topics == ("app-r-repartition",)


def test_should_demand_an_application_id() -> None:
    with pytest.raises(TopologyError, match="application id"):
        _builder("t").subtopologies()


def test_should_take_another_prefix_from_the_configuration() -> None:
    builder = InternalTopologyBuilder({"__internal.override.topic.prefix__": "other"})
    builder.add_source(None, "s", None, None, None, "t")
    builder.add_processor("p", Echo, "s")
    builder.add_state_store(FakeStoreBuilder("st"), "p")
    assert builder.subtopologies("app")[0].store_to_changelog == {"st": "other-st-changelog"}


def test_should_list_nodes_in_topological_order_with_their_stores() -> None:
    builder = _builder("t")
    builder.add_processor("p", Echo, "s0")
    builder.add_processor("q", Echo, "p", "s0")
    builder.add_state_store(FakeStoreBuilder("a"), "q")
    builder.add_state_store(FakeStoreBuilder("b"), "q", "p")
    (plan,) = builder.subtopologies("app")
    p, q = (node for node in plan.nodes if isinstance(node, ProcessorSpec))
    assert [node.name for node in plan.nodes] == ["s0", "p", "q"]
    assert (p.stores, q.stores, q.parents) == (("b",), ("a", "b"), ("p", "s0"))
    assert list(plan.stores) == ["b", "a"]


def test_should_leave_out_numbers_of_global_stores() -> None:
    builder = InternalTopologyBuilder()
    builder.add_global_store(FakeStoreBuilder("g"), "gs", None, None, None, "gt", "gp", Echo)
    builder.add_source(None, "s", None, None, None, "t")
    assert [plan.id for plan in builder.subtopologies("app")] == [1]
    assert builder.node_groups() == {0: ("gs", "gp"), 1: ("s",)}


def test_should_have_no_global_topology_without_global_stores() -> None:
    assert _builder("t").global_topology("app") is None


def test_should_build_everything_as_one_plan() -> None:
    whole = _repartitioned().build_topology("app")
    assert [node.name for node in whole.nodes] == ["s0", "k", "r", "p"]
    assert whole.source_topics == ("t", "app-r-repartition")


def test_should_not_own_a_changelog_that_is_a_source_topic() -> None:
    builder = _builder("t")
    builder.add_processor("p", Echo, "s0")
    builder.add_state_store(FakeStoreBuilder("st").with_logging_disabled(), "p")
    builder.connect_source_store_and_topic("st", "t")
    (plan,) = builder.subtopologies("app")
    assert (plan.store_to_changelog, plan.changelog_topics) == ({"st": "t"}, {})
    with pytest.raises(TopologyError, match="already added"):
        builder.connect_source_store_and_topic("st", "u")


def test_should_have_no_changelog_without_logging() -> None:
    builder = _builder("t")
    builder.add_processor("p", Echo, "s0")
    builder.add_state_store(FakeStoreBuilder("st").with_logging_disabled(), "p")
    assert builder.subtopologies("app")[0].store_to_changelog == {}


def test_should_replace_a_store_only_where_allowed() -> None:
    builder = _builder("t")
    first, second = FakeStoreBuilder("st"), FakeStoreBuilder("st")
    builder.add_state_store(first)
    with pytest.raises(TopologyError, match="different StateStore"):
        builder.add_state_store(second)
    builder.add_state_store(second, allow_override=True)
    assert builder.state_stores["st"] is second


def test_should_fill_in_the_topics_a_pattern_matches() -> None:
    pattern = re.compile("orders-.*")
    builder = _builder(pattern, "users")
    matched = builder.match_topics(["orders-eu", "orders-us", "users", "my-orders-x"])
    plans = builder.subtopologies("app", matched_topics=matched)
    assert matched == {pattern: ("orders-eu", "orders-us")}
    assert plans[0].source_topics == ("orders-eu", "orders-us")
    assert plans[0].source_patterns == (pattern,)
    assert isinstance(plans[0].nodes[0], SourceSpec)
    assert plans[0].nodes[0].topics == ("orders-eu", "orders-us")
    assert builder.subtopologies("app", matched_topics={"orders-.*": ["orders-x"]})[0].source_topics == ("orders-x",)
    assert builder.subtopologies("app")[0].source_topics == ()


def test_should_refuse_a_topic_that_two_patterns_match() -> None:
    with pytest.raises(TopologyError, match="orders-eu is already matched"):
        _builder(re.compile("orders-.*"), re.compile(".*-eu")).match_topics(["orders-eu"])


def test_should_not_match_the_topic_of_a_global_store() -> None:
    builder = InternalTopologyBuilder()
    builder.add_global_store(FakeStoreBuilder("g"), "gs", None, None, None, "orders-all", "gp", Echo)
    pattern = re.compile("orders-.*")
    builder.add_source(None, "s", None, None, None, pattern)
    assert builder.match_topics(["orders-all", "orders-eu"]) == {pattern: ("orders-eu",)}


def test_should_find_the_offset_reset_of_a_topic() -> None:
    builder = InternalTopologyBuilder()
    builder.add_source("earliest", "a", None, None, None, "t")
    builder.add_source("latest", "b", None, None, None, re.compile("x.*"))
    assert str(builder.offset_reset_strategy("t", "app")) == "earliest"
    assert str(builder.offset_reset_strategy("x1", "app")) == "latest"
    with pytest.raises(TopologyError, match="not read"):
        builder.offset_reset_strategy("u", "app")


def test_should_merge_copartition_groups_that_share_a_topic() -> None:
    builder = _builder("a", "b", "c", "d")
    builder.add_processor("p", Echo, "s0", "s1", "s2", "s3")
    for group in (["s0", "s1"], ["s2", "s3"], ["s1", "s2"]):
        builder.copartition_sources(group)
    assert builder.subtopologies("app")[0].copartition_groups == (frozenset("abcd"),)


def test_should_replace_a_source_in_copartition_groups() -> None:
    builder = _builder("a", "b", "c")
    builder.add_processor("p", Echo, "s0", "s1", "s2")
    builder.copartition_sources(["s0", "gone"])
    builder.maybe_update_copartition_source_groups("gone", "s2")
    assert builder.subtopologies("app")[0].copartition_groups == (frozenset({"a", "c"}),)


@pytest.mark.parametrize(("first", "second", "fits"), [(2, 3, False), (2, 2, True), (2, None, True), (None, None, True)])
def test_should_check_fixed_partition_counts_of_copartitioned_topics(first: int | None, second: int | None, fits: bool) -> None:
    builder = InternalTopologyBuilder()
    for name, partitions in (("a", first), ("b", second)):
        builder.add_internal_topic(name, InternalTopicProperties(partitions))
        builder.add_source(None, name, None, None, None, name)
    builder.copartition_sources(["a", "b"])
    if fits:
        builder.validate_copartition()
    else:
        with pytest.raises(TopologyError, match="a has 2, b has 3 partitions"):
            builder.validate_copartition()


def test_should_strip_caches_where_the_cache_has_no_room() -> None:
    configured: list[Any] = []

    class Configurable(FakeStoreBuilder):
        def configure(self, config: Any) -> None:
            configured.append(config)

    store = Configurable("st")
    store.with_caching_enabled()
    builder = _builder("t")
    builder.add_state_store(store)
    builder.rewrite_topology({"application.id": "app", "statestore.cache.max.bytes": 1})
    assert store.caching_enabled
    builder.rewrite_topology({"application.id": "app", "statestore.cache.max.bytes": 0})
    assert not store.caching_enabled
    assert builder.application_id == "app"
    assert len(configured) == 2


def test_should_know_versioned_stores() -> None:
    builder = _builder("t")
    builder.add_state_store(FakeVersionedStoreBuilder("ver", 9000))
    builder.add_state_store(FakeStoreBuilder("kv"))
    assert builder.is_store_versioned("ver")
    assert not builder.is_store_versioned("kv")
    assert builder.history_retention("ver") == 9000
    with pytest.raises(TopologyError, match="not versioned"):
        builder.history_retention("kv")


def test_should_know_whether_a_store_in_use_is_persistent() -> None:
    string = Serdes.string()
    builder = _builder("t")
    builder.add_processor("p", Echo, "s0")
    builder.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("memory"), string, string), "p")
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("disk"), string, string))
    assert not builder.has_persistent_stores
    builder.connect_processor_and_state_stores("p", "disk")
    assert builder.has_persistent_stores


class CountingWrapper(ProcessorWrapper):
    """Remembers the names it is asked about."""

    def __init__(self) -> None:
        self.wrapped: list[tuple[str, str]] = []

    def wrap_processor_supplier(self, processor_name: str, supplier: Any) -> Any:
        self.wrapped.append(("key", processor_name))
        return lambda: supplier()

    def wrap_fixed_key_processor_supplier(self, processor_name: str, supplier: Any) -> Any:
        self.wrapped.append(("fixed", processor_name))
        return supplier


def test_should_wrap_every_processor_and_keep_its_stores() -> None:
    wrapper = CountingWrapper()
    topology = Topology({"processor.wrapper.class": wrapper}).add_source("s", "t")
    topology.add_processor("p", SupplierWithStores([FakeStoreBuilder("st")]), "s").add_processor("q", FixedKeyProcessor, "p")
    assert wrapper.wrapped == [("key", "p"), ("fixed", "q")]
    assert "Processor: p (stores: [st])" in str(topology.describe())


@pytest.mark.parametrize("value", ["no.such.module.Wrapper", object(), dict])
def test_should_refuse_a_wrapper_that_is_none(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"processor\.wrapper\.class"):
        Topology({"processor.wrapper.class": value})


def test_should_import_a_wrapper_by_its_path() -> None:
    Topology({"processor.wrapper.class": "penstock.topology.wrapping.ProcessorWrapper"})


def test_should_pickle_with_lambdas_inside() -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    topology = Topology().add_source("s", re.compile("t.*"), timestamp_extractor=lambda record, time: 5)
    topology.add_processor("p", lambda: Echo(), "s").add_state_store(FakeStoreBuilder("st"), "p")
    topology.add_sink("k", lambda key, value, context: "o", "p", partitioner=lambda *_: 0)
    copy = cloudpickle.loads(cloudpickle.dumps(topology))
    assert str(copy.describe()) == str(topology.describe())
    (plan,) = cloudpickle.loads(cloudpickle.dumps(copy.internal_topology_builder.subtopologies("app")))
    assert isinstance(plan.nodes[1].supplier(), Echo)
