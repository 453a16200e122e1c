"""Which sub-topologies may take their records as columns: decided from specs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import JoinWindows, Processor, Record, StreamsBuilder, StreamsConfig
from penstock.operators import KStreamAggregate
from penstock.topology.column_path import is_counted, stream_join, takes_columns
from penstock.topology.specs import Subtopology

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


@pytest.mark.parametrize("build", [chain, count, branches])
def test_should_take_columns_where_no_node_can_tell(build: Build) -> None:
    assert [takes_columns(some.nodes) for some in built(build)] == [True]


@pytest.mark.parametrize("build", [own_processor, meeting_ways, one_topic_twice, topic_by_record, joined])
def test_should_take_records_one_by_one_where_a_node_could_tell(build: Build) -> None:
    assert [takes_columns(some.nodes) for some in built(build)] == [False]


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
    assert is_counted(counts, topic, lambda supplier: isinstance(supplier, KStreamAggregate))
    assert not is_counted(counts, topic, lambda supplier: False)
    assert not is_counted(built(chain)[0], "a", lambda supplier: True)
