"""Topics that are joined though their keys lie differently are noticed by a few keys."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

from penstock import Consumed, Grouped, Serdes, StreamsBuilder, StreamsConfig
from penstock.hashing import default_partition
from penstock.runtime.key_placement import PARTITION, KeyPlacement

GROUP = (frozenset({"orders", "customers"}),)
COUNTS = {"orders": 3, "customers": 3}
KEYS = [f"key-{n}".encode() for n in range(600)]


def as_kafka(key: bytes) -> int:
    return default_partition(key, 3)


def as_librdkafka(key: bytes) -> int:
    return zlib.crc32(key) % 3


def keys(partitioner: Callable[[bytes], int]) -> list[bytes | None]:
    """The keys of the partition that is looked at, with some that are none."""
    return [None, *(key for key in KEYS if partitioner(key) == PARTITION)]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level("WARNING"):
        yield lambda: [record.getMessage() for record in caplog.records]


def test_should_warn_once_where_one_topic_lies_as_kafka_puts_it_and_the_other_does_not(warned: Callable[[], list[str]]) -> None:
    places = KeyPlacement(GROUP, COUNTS, frozenset())
    places.look("customers", keys(as_kafka)[:15])
    places.look("orders", keys(as_librdkafka)[:15])
    assert not warned()  # of customers too little is known
    for start in range(0, 150, 30):
        places.look("customers", keys(as_kafka)[start : start + 30])
        places.look("orders", keys(as_librdkafka)[start : start + 30])
    (told,) = warned()
    assert "topics orders and customers are joined" in told
    assert "partitioner=murmur2_random" in told
    assert places.is_complete


@pytest.mark.parametrize("partitioner", [as_kafka, as_librdkafka])
def test_should_say_nothing_where_all_topics_lie_alike(
    partitioner: Callable[[bytes], int], warned: Callable[[], list[str]]
) -> None:
    places = KeyPlacement(GROUP, COUNTS, frozenset())
    for start in range(0, 400, 40):
        for topic in COUNTS:
            places.look(topic, keys(partitioner)[start : start + 40])
    assert not warned()
    assert places.is_complete


def test_should_look_at_few_keys_and_then_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr(
        "penstock.runtime.key_placement.default_partition",
        lambda key, count: (hashed.append(key), default_partition(key, count))[1],
    )
    places = KeyPlacement(GROUP, {"orders": 2, "customers": 2}, frozenset())
    for _ in range(1000):
        places.look("orders", KEYS)
    assert len(hashed) == 64  # the first of each batch, each once
    for start in range(0, 600, 50):
        places.look("orders", [key for key in KEYS[start : start + 50] if default_partition(key, 2) == 0])
    assert len(hashed) < 300


def test_should_have_nothing_to_look_at_without_a_join_or_with_one_partition() -> None:
    assert KeyPlacement((), {}, frozenset()).is_complete
    assert KeyPlacement(GROUP, {"orders": 1, "customers": 1}, frozenset()).is_complete
    assert KeyPlacement((frozenset({"orders"}),), COUNTS, frozenset()).is_complete


def test_should_know_that_repartition_topics_lie_as_kafka_puts_them(warned: Callable[[], list[str]]) -> None:
    builder, text = StreamsBuilder(), Serdes.string()
    orders = builder.stream("orders", Consumed(text, text)).select_key(lambda key, value: value)
    customers = builder.table("customers", Consumed(text, text))
    orders.join(customers, lambda order, customer: order + customer).group_by_key(Grouped("by", text, text)).count()
    topology = builder.build().internal_topology_builder
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1"})
    topology.rewrite_topology(config)
    found = list(topology.subtopologies("app", {}))
    joining = next(s for s in found if "customers" in s.source_topics)
    counts = dict.fromkeys((topic for s in found for topic in s.source_topics), 3)
    places = KeyPlacement.of(joining, found, counts)
    places.look("customers", keys(as_kafka))
    assert not warned()
    places = KeyPlacement.of(joining, found, counts)
    places.look("customers", keys(as_librdkafka))
    assert len(warned()) == 1
