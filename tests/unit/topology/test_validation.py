from __future__ import annotations

import re

import pytest

from penstock.errors import MissingSourceTopicError, TopologyError
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.internal_topics import InternalTopicProperties, RepartitionTopicConfig
from penstock.topology.validation import repartition_partition_counts, validate_copartitioning
from tests.unit.topology.cases import Echo


def _free(name: str) -> RepartitionTopicConfig:
    return RepartitionTopicConfig(name)


def _fixed(name: str, partitions: int) -> RepartitionTopicConfig:
    return RepartitionTopicConfig(name, {}, partitions, enforce_partitions=True)


def _chain(*topics: tuple[str, int | None]) -> InternalTopologyBuilder:
    """`in` is repartitioned through the topics one after the other."""
    builder = InternalTopologyBuilder()
    builder.add_source(None, "in", None, None, None, "in")
    previous = "in"
    for topic, partitions in topics:
        builder.add_internal_topic(topic, InternalTopicProperties(partitions))
        builder.add_sink(f"{topic}-sink", topic, None, None, None, previous)
        builder.add_source(None, topic, None, None, None, topic)
        previous = topic
    return builder


def test_should_accept_topics_with_the_same_number_of_partitions() -> None:
    assert validate_copartitioning([{"a", "b"}], {"a": 3, "b": 3}, {}) == {}


def test_should_name_both_topics_and_their_partition_counts() -> None:
    with pytest.raises(TopologyError, match="Topics not co-partitioned: clicks has 4, users has 3 partitions"):
        validate_copartitioning([{"users", "clicks"}], {"users": 3, "clicks": 4}, {})


def test_should_give_a_repartition_topic_the_number_of_the_topic_it_joins() -> None:
    assert validate_copartitioning([{"a", "r"}], {"a": 3, "r": 8}, {"r": _free("r")}) == {"r": 3}


def test_should_give_repartition_topics_the_highest_number_of_the_group() -> None:
    repartition = {"q": _free("q"), "r": _free("r")}
    assert validate_copartitioning([{"q", "r"}], {"q": 2, "r": 8}, repartition) == {"q": 8, "r": 8}


def test_should_follow_a_fixed_number_in_a_group_of_repartition_topics() -> None:
    repartition = {"q": _fixed("q", 2), "r": _free("r")}
    assert validate_copartitioning([{"q", "r"}], {"q": 2, "r": 8}, repartition) == {"q": 2, "r": 2}


def test_should_refuse_fixed_numbers_that_differ() -> None:
    repartition = {"q": _fixed("q", 2), "r": _fixed("r", 3)}
    with pytest.raises(TopologyError, match="q has 2, r has 3 partitions"):
        validate_copartitioning([{"q", "r"}], {"q": 2, "r": 3}, repartition)


@pytest.mark.parametrize("partitions", [2, 8])
def test_should_refuse_a_fixed_number_that_differs_from_a_joined_topic(partitions: int) -> None:
    with pytest.raises(TopologyError, match=f"a has 4, r has {partitions} partitions"):
        validate_copartitioning([{"a", "r"}], {"a": 4, "r": partitions}, {"r": _fixed("r", partitions)})


def test_should_name_a_topic_that_does_not_exist() -> None:
    with pytest.raises(TopologyError, match=r"\['b'\].*co-partitioned with \['a'\]"):
        validate_copartitioning([{"a", "b"}], {"a": 4}, {})


def test_should_pass_partition_counts_down_a_chain() -> None:
    plans = _chain(("q", None), ("r", None)).subtopologies("app")
    assert repartition_partition_counts(plans, {"in": 4}) == {"app-q": 4, "app-r": 4}
    assert repartition_partition_counts(plans[::-1], {"in": 4}) == {"app-q": 4, "app-r": 4}


def test_should_stop_at_a_fixed_number_in_a_chain() -> None:
    plans = _chain(("q", 6), ("r", None)).subtopologies("app")
    assert repartition_partition_counts(plans, {"in": 4}) == {"app-q": 6, "app-r": 6}


def test_should_resolve_subtopologies_that_feed_each_other() -> None:
    builder = _chain(("q", None), ("r", None))
    builder.add_sink("back", "q", None, None, None, "r")
    assert repartition_partition_counts(builder.subtopologies("app"), {"in": 4}) == {"app-q": 4, "app-r": 4}


def test_should_let_a_join_decide_over_what_is_upstream() -> None:
    builder = _chain(("q", None))
    builder.add_source(None, "other", None, None, None, "other")
    builder.add_processor("join", Echo, "q", "other")
    builder.copartition_sources(["q", "other"])
    assert repartition_partition_counts(builder.subtopologies("app"), {"in": 4, "other": 9}) == {"app-q": 9}


def test_should_refuse_a_join_of_topics_with_different_counts() -> None:
    builder = InternalTopologyBuilder()
    builder.add_source(None, "a", None, None, None, "a")
    builder.add_source(None, "b", None, None, None, "b")
    builder.add_processor("join", Echo, "a", "b")
    builder.copartition_sources(["a", "b"])
    with pytest.raises(TopologyError, match="a has 1, b has 2 partitions"):
        repartition_partition_counts(builder.subtopologies("app"), {"a": 1, "b": 2})


def test_should_name_missing_source_topics() -> None:
    with pytest.raises(MissingSourceTopicError, match=r"Missing source topics \['in'\] for sub-topology 0"):
        repartition_partition_counts(_chain(("q", None)).subtopologies("app"), {})


def test_should_say_when_a_pattern_has_matched_nothing() -> None:
    builder = InternalTopologyBuilder()
    builder.add_source(None, "in", None, None, None, re.compile("x.*"))
    builder.add_internal_topic("q", InternalTopicProperties())
    builder.add_sink("k", "q", None, None, None, "in")
    builder.add_source(None, "q", None, None, None, "q")
    with pytest.raises(TopologyError, match="pattern matches at least one topic"):
        repartition_partition_counts(builder.subtopologies("app"), {})
