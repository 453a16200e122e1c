"""Changelogs, repartition topics, co-partitioning and store settings of built topologies."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Grouped, Joined, Materialized, Repartitioned, StreamJoined
from penstock.errors import TopologyError
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.testing import TopologyTestDriver
from penstock.topology.internal_topics import internal_topics
from penstock.topology.specs import Subtopology
from penstock.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows
from tests.unit.dsl.programs import TEXT, by_value, cat, empty, first, stream, swap, table, take, yes

ALL = {"topology.optimization": "all"}


def plans(builder: StreamsBuilder, config: dict[str, Any] | None = None) -> list[Subtopology]:
    return builder.build(config).internal_topology_builder.subtopologies("app")


def store_builders(builder: StreamsBuilder) -> dict[str, Any]:
    return dict(builder.build().internal_topology_builder.state_stores)


def test_should_give_a_source_table_a_changelog_of_its_own() -> None:
    builder = StreamsBuilder()
    builder.table("topic", Consumed(TEXT, TEXT), Materialized("store"))
    (plan,) = plans(builder)
    assert plan.store_to_changelog == {"store": "app-store-changelog"}
    assert plan.stores["store"].logging_enabled


def test_should_reuse_the_topic_of_a_source_table_when_optimised() -> None:
    builder = StreamsBuilder()
    builder.table("topic", Consumed(TEXT, TEXT), Materialized("store"))
    (plan,) = plans(builder, ALL)
    assert plan.store_to_changelog == {"store": "topic"}
    assert plan.changelog_topics == {}
    assert not plan.stores["store"].logging_enabled


def test_should_not_reuse_a_repartition_topic_for_a_table_made_from_it() -> None:
    builder = StreamsBuilder()
    stream(builder, "topic").repartition().to_table(Materialized("store"))
    assert plans(builder, ALL)[1].store_to_changelog == {"store": "app-store-changelog"}


def test_should_keep_a_source_table_only_if_somebody_needs_it() -> None:
    builder = StreamsBuilder()
    unused = table(builder, "unused")
    unused.filter(yes).to_stream().to("out")
    looked_up = table(builder, "looked-up")
    stream(builder, "in").join(looked_up.map_values(str), cat)
    grouped = table(builder, "grouped")
    grouped.group_by(swap).count(Materialized("counts"))
    assert unused.queryable_store_name is None
    assert set(store_builders(builder)) == {"looked-up-STATE-STORE-0000000006", "grouped-STATE-STORE-0000000012", "counts"}


def test_should_name_the_store_that_can_be_queried() -> None:
    builder = StreamsBuilder()
    source = table(builder, "t")
    assert source.filter(yes, Materialized("kept")).queryable_store_name == "kept"
    assert source.filter(yes, Materialized(key_serde=TEXT)).queryable_store_name is None
    assert stream(builder, "s").group_by_key().count(Materialized("counts")).queryable_store_name == "counts"
    assert stream(builder, "s2").group_by_key().count().queryable_store_name is None
    assert builder.global_table("g", Consumed(TEXT, TEXT)).queryable_store_name == "g-STATE-STORE-0000000011"


def test_should_use_one_repartition_topic_for_a_named_group_used_twice() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder, "in").group_by(by_value, Grouped("grouping"))
    grouped.count()
    grouped.reduce(first)
    topics = [topic for plan in plans(builder) for topic in plan.repartition_source_topics]
    assert topics == ["app-grouping-repartition"]


def test_should_use_two_repartition_topics_for_an_unnamed_group_used_twice() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder, "in").group_by(by_value)
    grouped.count()
    grouped.reduce(first)
    assert sum(len(plan.repartition_source_topics) for plan in plans(builder)) == 2


def test_should_refuse_one_group_name_on_two_streams() -> None:
    builder = StreamsBuilder()
    stream(builder, "a").group_by(by_value, Grouped("grouping")).count()
    stream(builder, "b").group_by(by_value, Grouped("grouping")).count()
    with pytest.raises(TopologyError, match="grouping"):
        builder.build()


def test_should_create_the_partitions_a_repartition_asks_for() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").repartition(Repartitioned("five", number_of_partitions=5)).group_by_key().count(Materialized("c"))
    topics = internal_topics(plans(builder), {"in": 2})
    assert (topics["app-five-repartition"].partitions, topics["app-c-changelog"].partitions) == (5, 5)


def test_should_copartition_a_repartition_with_the_table_it_joins() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").select_key(by_value).join(table(builder, "t"), cat, Joined(name="j")).to("out")
    topics = internal_topics(plans(builder), {"in": 2, "t": 7})
    assert topics["app-j-repartition"].partitions == 7


def test_should_refuse_fixed_partitions_that_do_not_fit_together() -> None:
    builder = StreamsBuilder()
    three = stream(builder, "a").repartition(Repartitioned("three", number_of_partitions=3))
    five = stream(builder, "b").repartition(Repartitioned("five", number_of_partitions=5))
    three.join(five, cat, JoinWindows(10, grace=0))
    with pytest.raises(TopologyError, match=r"3[\s\S]*5|5[\s\S]*3"):
        builder.build()


def test_should_say_which_topics_are_not_copartitioned() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").join(table(builder, "t"), cat).to("out")
    with pytest.raises(TopologyError, match=r"(?=[\s\S]*in)(?=[\s\S]*t)(?=[\s\S]*2)(?=[\s\S]*7)"):
        internal_topics(plans(builder), {"in": 2, "t": 7})


def test_should_delete_but_not_compact_the_changelogs_of_a_stream_join() -> None:
    builder = StreamsBuilder()
    joined: Any = StreamJoined(TEXT, TEXT, TEXT, store_name="s", topic_config={"cleanup.policy": "compact", "x": "y"})
    stream(builder, "a").outer_join(stream(builder, "b"), cat, JoinWindows(before=10, after=20, grace=5), joined).to("out")
    stores = store_builders(builder)
    assert stores["s-outer-this-join-store"].log_config == {"cleanup.policy": "delete", "x": "y"}
    assert stores["s-outer-shared-join-store"].log_config == {"cleanup.policy": "compact", "x": "y"}
    assert stores["s-outer-other-join-store"].retention_period == 35
    assert not any(store.caching_enabled for store in stores.values())


def test_should_log_the_supplied_stores_of_a_stream_join_whatever_it_says() -> None:
    builder = StreamsBuilder()
    joined: Any = StreamJoined(
        TEXT,
        TEXT,
        TEXT,
        this_store_supplier=Stores.in_memory_window_store("w1", 20, 20, True),
        other_store_supplier=Stores.in_memory_window_store("w2", 20, 20, True),
        logging=False,
    )
    stream(builder, "a").left_join(stream(builder, "b"), cat, JoinWindows(10, grace=0), joined).to("out")
    logged = {name: store.logging_enabled for name, store in store_builders(builder).items()}
    assert logged == {"w1": True, "w2": True, "w1-left-shared-join-store": False}


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (Stores.in_memory_window_store("w", 20, 20, False), "retain_duplicates"),
        (Stores.in_memory_window_store("w", 30, 20, True), "retention"),
        (Stores.in_memory_window_store("w", 20, 10, True), "window_size"),
    ],
)
def test_should_refuse_supplied_stores_that_do_not_fit_the_join(supplier: Any, message: str) -> None:
    builder = StreamsBuilder()
    joined: Any = StreamJoined(this_store_supplier=supplier)
    with pytest.raises(TopologyError, match=message):
        stream(builder, "a").join(stream(builder, "b"), cat, JoinWindows(10, grace=0), joined)


def test_should_refuse_supplied_stores_of_one_name() -> None:
    builder = StreamsBuilder()
    supplier = Stores.in_memory_window_store("w", 20, 20, True)
    joined: Any = StreamJoined(this_store_supplier=supplier, other_store_supplier=supplier)
    with pytest.raises(TopologyError, match="store name w"):
        stream(builder, "a").join(stream(builder, "b"), cat, JoinWindows(10, grace=0), joined)


def test_should_keep_windows_as_long_as_late_records_may_change_them() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder, "in").group_by_key()
    grouped.windowed_by(TimeWindows(10, grace=3)).count(Materialized("time"))
    grouped.windowed_by(SlidingWindows(10, grace=3)).count(Materialized("sliding"))
    grouped.windowed_by(SessionWindows(10, grace=3)).count(Materialized("session"))
    grouped.windowed_by(TimeWindows(10, grace=3)).count(Materialized("longer", retention=99))
    periods = {name: store.retention_period for name, store in store_builders(builder).items()}
    assert periods == {"time": 13, "sliding": 23, "session": 13, "longer": 99}


@pytest.mark.parametrize("windows", [TimeWindows(10, grace=3), SlidingWindows(10, grace=3), SessionWindows(10, grace=3)])
def test_should_refuse_a_retention_that_is_too_short(windows: Any) -> None:
    grouped = stream(StreamsBuilder(), "in").group_by_key()
    with pytest.raises(TopologyError, match=r"retention of the store s .* 12 ms"):
        grouped.windowed_by(windows).count(Materialized("s", retention=12))


def test_should_not_cache_final_results_of_sliding_and_session_windows() -> None:
    builder = StreamsBuilder()
    grouped = stream(builder, "in").group_by_key()
    for name, windows in (("t", TimeWindows(9, grace=0)), ("s", SlidingWindows(9, grace=0)), ("e", SessionWindows(9, grace=0))):
        grouped.windowed_by(windows).emit_strategy(EmitStrategy.on_window_close()).count(Materialized(name))
    assert {name: store.caching_enabled for name, store in store_builders(builder).items()} == {
        "t": True,
        "s": False,
        "e": False,
    }


def test_should_not_cache_a_versioned_store() -> None:
    builder = StreamsBuilder()
    versioned: Any = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 1000))
    builder.table("t", Consumed(TEXT, TEXT), versioned)
    store = store_builders(builder)["v"]
    assert (store.caching_enabled, store.history_retention) == (False, 1000)


def test_should_follow_the_settings_of_materialized() -> None:
    builder = StreamsBuilder()
    options: Any = Materialized("s", caching=False, logging=False)
    stream(builder, "in").group_by_key().aggregate(empty, take, options)
    store = store_builders(builder)["s"]
    assert (store.caching_enabled, store.logging_enabled) == (False, False)


@pytest.mark.parametrize(
    ("config", "options", "persistent"),
    [
        ({}, {}, True),
        ({"default.dsl.store": "in_memory"}, {}, False),
        ({"default.dsl.store": "in_memory"}, {"store_type": "rocksdb"}, True),
        ({}, {"store_type": "in_memory"}, False),
        ({"dsl.store.suppliers.class": "penstock.graph.dsl_stores.InMemoryDslStoreSuppliers"}, {}, False),
    ],
)
@pytest.mark.parametrize("when", ["builder", "start"])
def test_should_keep_tables_in_the_engine_that_was_asked_for(
    config: dict[str, Any], options: dict[str, Any], persistent: bool, when: str
) -> None:
    builder = StreamsBuilder(StreamsConfig.partial(config) if when == "builder" else None)
    grouped = stream(builder, "in").group_by_key()
    grouped.count(Materialized("kv", **options))
    grouped.windowed_by(TimeWindows(10, grace=0)).count(Materialized("window", **options))
    grouped.windowed_by(SessionWindows(10, grace=0)).count(Materialized("session", **options))
    topology = builder.build().internal_topology_builder
    if when == "start":
        topology.rewrite_topology(StreamsConfig.partial({"application.id": "app", **config}))
    assert {name: store.build().persistent for name, store in topology.state_stores.items()} == dict.fromkeys(
        ("kv", "window", "session"), persistent
    )


@pytest.mark.parametrize("engine", ["rocksdb", "in_memory"])
def test_should_keep_headers_where_the_configuration_asks_for_it(engine: Any) -> None:
    builder = StreamsBuilder()
    grouped = stream(builder, "in").group_by_key()
    grouped.count(Materialized("kv", store_type=engine))
    for name, windows in (("time", TimeWindows(9, grace=0)), ("sliding", SlidingWindows(9, grace=0))):
        grouped.windowed_by(windows).count(Materialized(name, store_type=engine))
    grouped.windowed_by(SessionWindows(9, grace=0)).count(Materialized("session", store_type=engine))
    topology = builder.build().internal_topology_builder
    assert not any(store.build().value_format.keeps_headers for store in topology.state_stores.values())
    topology.rewrite_topology(StreamsConfig.partial({"application.id": "app", "dsl.store.format": "headers"}))
    # As in Kafka Streams, stores in memory stay as they are.
    assert [store.build().value_format.keeps_headers for store in topology.state_stores.values()] == [engine == "rocksdb"] * 4


def test_should_switch_all_caches_off_with_a_cache_of_no_bytes() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").group_by_key().count(Materialized("kv"))
    topology = builder.build().internal_topology_builder
    topology.rewrite_topology({"application.id": "app", "statestore.cache.max.bytes": 0})
    assert not topology.state_stores["kv"].caching_enabled


def test_should_keep_the_shared_store_of_an_outer_join_where_its_windows_are() -> None:
    builder = StreamsBuilder()
    joined: Any = StreamJoined(TEXT, TEXT, TEXT, this_store_supplier=Stores.in_memory_window_store("w", 20, 20, True))
    stream(builder, "a").left_join(stream(builder, "b"), cat, JoinWindows(10, grace=0), joined).to("out")
    shared = store_builders(builder)["w-left-shared-join-store"]
    assert not shared.build().persistent


def test_should_not_log_global_tables() -> None:
    builder = StreamsBuilder()
    builder.global_table("g", Consumed(TEXT, Serdes.long()), Materialized("store"))
    topology = builder.build().internal_topology_builder
    assert not topology.registry.global_stores["store"].logging_enabled


def test_should_not_offer_the_store_of_a_global_table_with_an_unnamed_materialized_for_queries() -> None:
    builder = StreamsBuilder()
    unnamed = builder.global_table("one", Consumed(TEXT, TEXT), Materialized())
    assert unnamed.queryable_store_name is None
    assert builder.global_table("two", Consumed(TEXT, TEXT)).queryable_store_name == "two-STATE-STORE-0000000003"
    assert builder.global_table("three", Consumed(TEXT, TEXT), Materialized("kept")).queryable_store_name == "kept"
    builder.stream("in", Consumed(TEXT, TEXT)).join(unnamed, lambda k, v: k, lambda left, right: left + right).to("out")
    with TopologyTestDriver(builder.build(), {"default.key.serde": TEXT, "default.value.serde": TEXT}) as driver:
        driver.create_input_topic("one", TEXT, TEXT).pipe_input("k", "1")
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        assert driver.create_output_topic("out", TEXT, TEXT).read_value() == "v1"
