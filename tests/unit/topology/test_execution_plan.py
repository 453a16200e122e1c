"""Where records are taken as columns: decided from what a sub-topology is made of and what its nodes declare, without a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock import JoinWindows, Processor, Record, StreamsBuilder, StreamsConfig
from penstock.batches.batch_processor import BatchSupport
from penstock.topology.execution_plan import (
    BatchThreshold,
    ExecutionMode,
    ExecutionPlan,
    Input,
    is_counted,
    plan_execution,
    stream_join,
    why_not_batched,
)
from penstock.topology.specs import SinkSpec, SourceSpec, Subtopology

CONFIG = StreamsConfig({"application.id": "app", "bootstrap.servers": "none:1"})
Build = Callable[[StreamsBuilder], object]


class Own(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def built(build: Build) -> list[Subtopology]:
    builder = StreamsBuilder()
    build(builder)
    return builder.build().internal_topology_builder.rewrite_topology(CONFIG).subtopologies("app", {})


def chain(builder: StreamsBuilder) -> None:
    builder.stream("a").filter(lambda key, value: True).map_values(str).to("out")


def count(builder: StreamsBuilder) -> None:
    builder.stream("a").group_by_key().count()


def branches(builder: StreamsBuilder) -> None:
    source = builder.stream("a")
    source.filter(lambda key, value: True).to("one")
    source.filter(lambda key, value: False).to("other")


def own_processor(builder: StreamsBuilder) -> None:
    builder.stream("a").process(Own).to("out")


def meeting_ways(builder: StreamsBuilder) -> None:
    source = builder.stream("a")
    source.filter(lambda key, value: True).merge(source.map_values(str)).to("out")


def one_topic_twice(builder: StreamsBuilder) -> None:
    source = builder.stream("a")
    source.filter(lambda key, value: True).to("out")
    source.filter(lambda key, value: False).to("out")


def topic_by_record(builder: StreamsBuilder) -> None:
    builder.stream("a").to(lambda key, value, context: "out")


def joined(builder: StreamsBuilder) -> None:
    windows = JoinWindows(1000, grace=0)
    builder.stream("a").join(builder.stream("b"), lambda one, other: one, windows).to("out")


def joined_tables(builder: StreamsBuilder) -> None:
    builder.table("a").join(builder.table("b"), lambda one, other: one).to_stream().to("out")


def joined_tables_in_two_ways(builder: StreamsBuilder) -> None:
    joined = builder.table("a").join(builder.table("b"), lambda one, other: one).to_stream()
    joined.to("out")
    joined.map_values(str).to("other")


def joined_tables_that_are_counted(builder: StreamsBuilder) -> None:
    builder.table("a").join(builder.table("b"), lambda one, other: one).to_stream().group_by_key().count()


def cogrouped(builder: StreamsBuilder) -> None:
    grouped = builder.stream("a").group_by_key(), builder.stream("b").group_by_key()
    one, other = grouped
    one.cogroup(lambda key, value, total: total).cogroup(other, lambda key, value, total: total).aggregate(list)


class Face(BatchSupport):
    def __init__(self, takes: bool = True, waits: bool = False) -> None:
        self.takes_batches, self._waits = takes, waits

    @property
    def waits_for_flush(self) -> bool:
        return self._waits


def planned(build: Build, faces: dict[str, Face] | None = None, other: Face | None = None, **given: Any) -> ExecutionPlan:
    """The plan where all nodes declare `other`, but those whose names begin so."""
    (found,) = built(build)
    sources = [node.name for node in found.nodes if isinstance(node, SourceSpec)]
    declared: dict[str, BatchSupport] = {}
    for node in found.nodes:
        if not isinstance(node, SourceSpec):
            special = (face for start, face in (faces or {}).items() if node.name.startswith(start))
            declared[node.name] = next(special, other or Face())
    return plan_execution(found.nodes, given.pop("inputs", [Input(name) for name in sources]), declared, **given)


@pytest.mark.parametrize("build", [chain, count, branches])
def test_should_take_batches_where_no_node_can_tell(build: Build) -> None:
    assert [why_not_batched(some.nodes) for some in built(build)] == [None]
    plan = planned(build)
    assert (plan.mode, plan.why_not) == (ExecutionMode.RUNS, "")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (own_processor, "processor KSTREAM-PROCESSOR-0000000001 is not one of the library's own"),
        (meeting_ways, "ways meet at KSTREAM-MERGE-0000000003"),
        (one_topic_twice, "two sinks write to topic out"),
        (topic_by_record, "sink KSTREAM-SINK-0000000001 has no fixed topic"),
        (joined, "ways meet at KSTREAM-MERGE-0000000006"),
    ],
)
def test_should_take_records_one_by_one_where_a_node_could_tell(build: Build, reason: str) -> None:
    assert [why_not_batched(some.nodes) for some in built(build)] == [reason]


def test_should_read_rows_together_that_go_one_by_one() -> None:
    plan = planned(own_processor)
    assert plan.mode is ExecutionMode.ROWS
    assert not plan.mode.is_batched
    assert plan.why_not == "processor KSTREAM-PROCESSOR-0000000001 is not one of the library's own"


def test_should_take_batches_as_far_as_nodes_declare_it() -> None:
    plan = planned(chain, {"KSTREAM-MAPVALUES": Face(takes=False)})
    assert plan.mode is ExecutionMode.RUNS
    assert plan.batch_nodes == {"KSTREAM-FILTER-0000000001", "KSTREAM-SINK-0000000003"}


def test_should_take_single_records_where_each_is_measured() -> None:
    plan = planned(chain, each_is_measured=True)
    assert (plan.mode, plan.batch_nodes) == (ExecutionMode.SINGLE, frozenset())
    assert plan.why_not == "metrics.recording.level is DEBUG: each record is measured"


def test_should_take_single_records_where_an_extractor_looks_at_each() -> None:
    plan = planned(chain, inputs=[Input("KSTREAM-SOURCE-0000000000", trusts_record=False)])
    assert (plan.mode, plan.why_not) == (
        ExecutionMode.SINGLE,
        "the timestamp extractor of source KSTREAM-SOURCE-0000000000 looks at each record",
    )


def test_should_join_the_batches_of_two_streams() -> None:
    plan = planned(joined)
    assert (plan.mode, plan.why_not) == (ExecutionMode.JOIN, "")
    assert plan.join is not None
    windows, joins = zip(*plan.join)
    assert set(windows) < plan.batch_nodes
    assert not set(joins) & plan.batch_nodes  # both are run together, by whoever has the columns of both


@pytest.mark.parametrize("node", ["KSTREAM-WINDOWED", "KSTREAM-JOINTHIS", "KSTREAM-JOINOTHER"])
def test_should_join_single_records_where_a_store_does_not_take_many(node: str) -> None:
    plan = planned(joined, {node: Face(takes=False)})
    assert (plan.mode, plan.why_not) == (ExecutionMode.ROWS, "ways meet at KSTREAM-MERGE-0000000006")


def test_should_join_single_records_of_more_than_two_partitions() -> None:
    (found,) = built(joined)
    sources = [node.name for node in found.nodes if isinstance(node, SourceSpec)]
    assert planned(joined, inputs=[Input(name) for name in (*sources, sources[0])]).mode is ExecutionMode.ROWS


def test_should_fold_batches_into_the_caches_of_tables_that_are_joined() -> None:
    assert planned(joined_tables, {"KTABLE-SOURCE": Face(waits=True)}).mode is ExecutionMode.TABLES
    assert planned(joined_tables, {"KTABLE-SOURCE": Face(waits=False)}).mode is ExecutionMode.SOURCES
    assert planned(joined_tables, {"KTABLE-SOURCE": Face(takes=False, waits=True)}).mode is ExecutionMode.SOURCES


def test_should_let_changes_of_tables_leave_as_batches_where_one_way_leads_on_that_keeps_nothing() -> None:
    tables = {"KTABLE-SOURCE": Face(waits=True)}
    assert planned(joined_tables, tables).flushes_batches
    assert not planned(joined_tables, {**tables, "KTABLE-MERGE": Face(takes=False)}).flushes_batches
    assert not planned(joined_tables_in_two_ways, tables).flushes_batches
    assert not planned(joined_tables_that_are_counted, tables).flushes_batches
    assert not planned(joined_tables, {"KTABLE-SOURCE": Face(waits=False)}).flushes_batches


def test_should_not_fold_batches_of_two_sources_into_one_table() -> None:
    assert planned(cogrouped, other=Face(waits=True)).mode is ExecutionMode.SOURCES


def test_should_decide_for_a_turn_by_what_waits() -> None:
    plan = planned(chain, threshold=BatchThreshold(rows=10, run=3))
    assert plan.mode_of(9, awaits_stream_time=False) is ExecutionMode.SINGLE
    assert plan.mode_of(10, awaits_stream_time=False) is ExecutionMode.RUNS
    assert plan.mode_of(10, awaits_stream_time=True) is ExecutionMode.ROWS
    assert [plan.is_worth(runs, 6) for runs in (0, 1, 2, 3)] == [True, True, True, False]


def test_should_take_single_records_until_the_task_is_open() -> None:
    plan = ExecutionPlan()
    assert plan.mode_of(1_000, awaits_stream_time=False) is ExecutionMode.SINGLE
    assert plan.why_not == "the task is not open yet"


def test_should_say_of_two_nodes_that_share_a_store() -> None:
    (found,) = built(count)
    (counting,) = (node for node in found.nodes if not isinstance(node, (SourceSpec, SinkSpec)))
    again = replace(counting, name="again")
    (store,) = counting.stores
    assert why_not_batched([*found.nodes, again]) == f"two nodes behind source KSTREAM-SOURCE-0000000000 use store {store}"


def test_should_find_the_sides_of_a_join_of_streams() -> None:
    (found,) = built(joined)
    sides = stream_join(found.nodes)
    assert sides is not None
    assert len({*sides[0], *sides[1]}) == 4
    assert stream_join(built(chain)[0].nodes) is None


def test_should_hand_on_counts_where_records_are_only_counted() -> None:
    def by_word(builder: StreamsBuilder) -> None:
        builder.stream("a").group_by(lambda key, value: value).count()

    counts = built(by_word)[-1]
    (topic,) = counts.source_topics
    assert is_counted(counts, topic)
    assert not is_counted(built(chain)[0], "a")


def test_should_hand_on_records_where_more_is_made_of_them() -> None:
    def by_word(builder: StreamsBuilder) -> None:
        builder.stream("a").group_by(lambda key, value: value).reduce(lambda one, other: one)

    reduced = built(by_word)[-1]
    (topic,) = reduced.source_topics
    assert not is_counted(reduced, topic)
