"""What the DSL refuses, and how it says so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.config.streams_config import StreamsConfig
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.options import Consumed, Joined, Materialized
from penstock.dsl.suppressed import BufferConfig, Suppressed
from penstock.errors import ConfigError, TopologyError
from penstock.state.stores import Stores
from penstock.topology.offset_reset import AutoOffsetReset
from penstock.windows import EmitStrategy, JoinWindows, SessionWindows, UnlimitedWindows
from tests.unit.dsl.programs import PROGRAMS, TEXT, Pass, cat, empty, first, same, stream, table, take

FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())


def versioned(builder: StreamsBuilder, topic: str = "t", retention: int = 1000) -> Any:
    options: Any = Materialized(supplier=Stores.persistent_versioned_key_value_store(f"{topic}-store", retention))
    return builder.table(topic, Consumed(TEXT, TEXT), options)


@pytest.mark.parametrize(
    "operator", ["filter", "map", "map_values", "flat_map", "flat_map_values", "select_key", "peek", "foreach"]
)
def test_should_refuse_what_cannot_be_called(operator: str) -> None:
    with pytest.raises(TypeError, match="must be callable, got 5"):
        getattr(stream(StreamsBuilder(), "in"), operator)(5)


def test_should_refuse_an_illegal_operator_name() -> None:
    with pytest.raises(TopologyError, match="illegal"):
        stream(StreamsBuilder(), "in").map_values(same, name="not legal")


def test_should_refuse_a_duplicate_operator_name() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").map_values(same, name="twice").map_values(same, name="twice")
    with pytest.raises(TopologyError, match="twice"):
        builder.build()


def test_should_refuse_overlapping_sets_of_topics() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("x")
    builder.stream(["b", "c"]).to("y")
    with pytest.raises(TopologyError, match="topic b"):
        builder.build()


def test_should_refuse_different_offset_resets_for_the_same_topic() -> None:
    builder = StreamsBuilder()
    builder.stream("a", Consumed(offset_reset="earliest")).to("x")
    builder.stream("a", Consumed(offset_reset=AutoOffsetReset.earliest())).to("z")
    builder.build()
    builder = StreamsBuilder()
    builder.stream("a", Consumed(offset_reset="earliest")).to("x")
    builder.stream("a", Consumed(offset_reset="latest")).to("y")
    with pytest.raises(TopologyError, match="earliest and latest"):
        builder.build()


def test_should_merge_sources_of_the_same_pattern_only() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a.*")).to("x")
    builder.stream(re.compile("a.*")).to("y")
    builder.stream(re.compile("b.*")).to("z")
    assert str(builder.build().describe()).count("Source:") == 2


def test_should_refuse_a_topic_read_as_stream_and_as_table() -> None:
    builder = StreamsBuilder()
    stream(builder, "t").to("x")
    table(builder, "t").to_stream().to("y")
    with pytest.raises(TopologyError, match="t has already been registered"):
        builder.build()


@pytest.mark.parametrize("other", [object(), 5, None])
def test_should_refuse_to_join_with_anything_else(other: Any) -> None:
    with pytest.raises(TypeError, match="KStream, a KTable or a GlobalKTable"):
        stream(StreamsBuilder(), "in").join(other, cat)
    with pytest.raises(TypeError, match="KTable"):
        table(StreamsBuilder(), "in").join(other, cat)


def test_should_refuse_an_outer_join_of_a_stream_with_a_table() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TypeError, match="outer_join is for two streams"):
        stream(builder, "in").outer_join(table(builder, "t"), cat)


def test_should_ask_for_windows_in_a_join_of_streams() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TypeError, match="windows"):
        stream(builder, "a").join(stream(builder, "b"), cat)
    with pytest.raises(TypeError, match="JoinWindows, got 5"):
        stream(builder, "a").join(stream(builder, "b"), cat, 5)


def test_should_refuse_options_of_a_foreign_key_join_without_a_foreign_key() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TypeError, match="foreign_key="):
        table(builder, "a").join(table(builder, "b"), cat, with_key=True)


def test_should_refuse_a_grace_period_with_a_table_that_is_not_versioned() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="must be versioned"):
        stream(builder, "a").join(table(builder, "t"), cat, Joined(grace_period=5))


def test_should_refuse_a_grace_period_with_a_table_below_one_that_is_not_versioned() -> None:
    builder = StreamsBuilder()
    stream(builder, "a").join(table(builder, "t").map_values(same), cat, Joined(grace_period=5))
    with pytest.raises(TopologyError, match="t-STATE-STORE-0000000001 is not"):
        builder.build()


def test_should_refuse_a_grace_period_longer_than_the_history() -> None:
    builder = StreamsBuilder()
    stream(builder, "a").join(versioned(builder, retention=4), cat, Joined(grace_period=5))
    with pytest.raises(TopologyError, match="5 ms, longer than the history retention of 4 ms"):
        builder.build()


def test_should_refuse_to_suppress_a_versioned_table() -> None:
    with pytest.raises(TopologyError, match="not versioned"):
        versioned(StreamsBuilder()).suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))


def test_should_refuse_to_suppress_below_a_versioned_table() -> None:
    builder = StreamsBuilder()
    versioned(builder).map_values(same).suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
    with pytest.raises(TopologyError, match="not versioned"):
        builder.build()


def test_should_refuse_to_wait_for_windows_where_there_are_none() -> None:
    with pytest.raises(TopologyError, match=r"windowed aggregation.*KTABLE-SOURCE-0000000002"):
        table(StreamsBuilder(), "t").suppress(FINAL)


def test_should_refuse_a_versioned_global_table() -> None:
    options: Any = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 5))
    with pytest.raises(TopologyError, match="cannot be versioned"):
        StreamsBuilder().global_table("g", Consumed(TEXT, TEXT), options)


def test_should_refuse_final_results_of_windows_that_never_close() -> None:
    windowed = stream(StreamsBuilder(), "in").group_by_key().windowed_by(UnlimitedWindows())
    with pytest.raises(TopologyError, match="UnlimitedWindows"):
        windowed.emit_strategy(EmitStrategy.on_window_close())


def test_should_ask_for_a_merger_of_sessions() -> None:
    windowed = stream(StreamsBuilder(), "in").group_by_key().windowed_by(SessionWindows(5, grace=0))
    with pytest.raises(TypeError, match="merger"):
        windowed.aggregate(empty, take)


def test_should_refuse_windows_of_another_kind() -> None:
    grouped = stream(StreamsBuilder(), "in").group_by_key()
    with pytest.raises(TypeError, match="windowed_by takes"):
        grouped.windowed_by(JoinWindows(5, grace=0))
    with pytest.raises(TypeError, match="windowed_by takes"):
        grouped.cogroup(take).windowed_by(JoinWindows(5, grace=0))


def test_should_refuse_a_store_that_was_not_added() -> None:
    builder = StreamsBuilder()
    stream(builder, "in").process(Pass, "missing")
    with pytest.raises(TopologyError, match="missing"):
        builder.build()


def test_should_refuse_two_different_stores_of_one_name() -> None:
    builder = StreamsBuilder()
    stream(builder, "a").group_by_key().count(Materialized("s"))
    stream(builder, "b").group_by_key().reduce(first, Materialized("s"))
    with pytest.raises(TopologyError, match="name s"):
        builder.build()


@pytest.mark.parametrize("value", ["some", "all,merge.repartition.topics", "none,all", ""])
def test_should_refuse_an_unknown_optimisation(value: str) -> None:
    if value == "":
        StreamsBuilder().build({"topology.optimization": value})
        return
    with pytest.raises(ConfigError, match=r"topology\.optimization"):
        StreamsBuilder().build({"topology.optimization": value})


def test_should_refuse_generated_names_where_names_must_be_explicit() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    PROGRAMS["wordcount-unnamed"](builder)
    with pytest.raises(TopologyError) as refused:
        builder.build()
    text = str(refused.value)
    assert "changelog topic(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-0000000003-changelog" in text
    assert "state store(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-0000000003" in text
    assert "repartition topic(s) has not been named: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition" in text


def test_should_not_let_a_default_undo_what_the_builder_was_given() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    PROGRAMS["wordcount-unnamed"](builder)
    with pytest.raises(TopologyError):
        builder.build(StreamsConfig.partial({"topology.optimization": "all"}))


def test_should_accept_explicit_names_where_names_must_be_explicit() -> None:
    builder = StreamsBuilder()
    PROGRAMS["wordcount"](builder)
    builder.build({"ensure.explicit.internal.resource.naming": "true"})


@pytest.mark.parametrize("given", [None, "stream", StreamsBuilder().stream("other")])
def test_should_refuse_to_cogroup_anything_but_a_grouped_stream(given: Any) -> None:
    cogrouped = StreamsBuilder().stream("in").group_by_key().cogroup(lambda k, v, a: a)
    with pytest.raises(TypeError, match=r"cogroup.*takes a grouped stream"):
        cogrouped.cogroup(given, lambda k, v, a: a)
