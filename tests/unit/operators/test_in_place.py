"""Aggregators that change what they get and give it back: old values are what they were, with a cache and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()


def pure(key: Any, value: Any, seen: list[Any]) -> list[Any]:
    return [*seen, value]


def in_place(key: Any, value: Any, seen: list[Any]) -> list[Any]:
    seen.append(value)
    return seen


def deep_in_place(key: Any, value: Any, seen: list[Any]) -> list[Any]:
    seen.append(value)
    return list(seen)


def merged(key: Any, one: list[Any], other: list[Any]) -> list[Any]:
    return [*other, *one]


def merged_in_place(key: Any, one: list[Any], other: list[Any]) -> list[Any]:
    other.extend(one)
    return other


def without(key: Any, value: Any, seen: list[Any]) -> list[Any]:
    rest = list(seen)
    rest.remove(value)
    return rest


def without_in_place(key: Any, value: Any, seen: list[Any]) -> list[Any]:
    seen.remove(value)
    return seen


def kept(caching: bool) -> Materialized[Any, Any]:
    return Materialized("kept", TEXT, JSON, caching=caching)


Aggregator = Callable[[Any, Any, Any], Any]


def plain(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    return stream.group_by_key().aggregate(list, aggregator, kept(caching))


def reduced(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    lists = stream.map_values(lambda value: [value]).group_by_key(Grouped(None, TEXT, JSON))
    return lists.reduce(lambda seen, value: aggregator(None, value[0], seen), kept(caching))


def windowed(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    return stream.group_by_key().windowed_by(TimeWindows(10, grace=100, advance=5)).aggregate(list, aggregator, kept(caching))


def sliding(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    return stream.group_by_key().windowed_by(SlidingWindows(10, grace=100)).aggregate(list, aggregator, kept(caching))


def sessions(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    merger = merged if aggregator is pure else merged_in_place
    groups = stream.group_by_key().windowed_by(SessionWindows(10, grace=100))
    return groups.aggregate(list, aggregator, merger, kept(caching))


def of_a_table(stream: Any, aggregator: Aggregator, caching: bool) -> Any:
    subtractor = without if aggregator is pure else without_in_place
    groups = stream.to_table("rows").group_by(lambda key, value: (key, value), Grouped(None, TEXT, TEXT))
    return groups.aggregate(list, aggregator, subtractor, kept(caching))


def results(make: Callable[[Any, Aggregator, bool], Any], aggregator: Aggregator, caching: bool) -> dict[str, int]:
    """How many aggregates there are of each length: a length is taken back with the old value."""
    builder = StreamsBuilder()
    table = make(builder.stream("in", Consumed(TEXT, TEXT)), aggregator, caching)
    lengths = table.group_by(lambda key, seen: (str(len(seen)), ""), Grouped(None, TEXT, TEXT)).count("lengths")
    lengths.to_stream().to("out", Produced(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key, timestamp in [("a", 1), ("a", 3), ("b", 4), ("a", 8), ("a", 2), ("b", 30), ("a", 14), ("a", 40), ("b", 27)]:
            topic.pipe_input(key, f"{key}{timestamp}", timestamp)
        return dict(driver.create_output_topic("out", TEXT, LONG).read_key_values_to_map())


@pytest.mark.parametrize("caching", [False, True], ids=["without a cache", "with a cache"])
@pytest.mark.parametrize("aggregator", [in_place, deep_in_place])
@pytest.mark.parametrize("make", [plain, reduced, windowed, sliding, sessions, of_a_table], ids=lambda make: make.__name__)
def test_should_take_back_what_there_was(
    make: Callable[[Any, Aggregator, bool], Any], aggregator: Aggregator, caching: bool
) -> None:
    assert results(make, aggregator, caching) == results(make, pure, caching)
