"""A close of the only member of a group leaves nothing in repartition topics, so that a Java application can take over."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock import Consumed, Grouped, Materialized, Produced, Repartitioned, Serdes, StreamsBuilder
from penstock.client.inside import inside
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, texts, threads, topics

Run = Callable[..., Any]
string, long = Serdes.string(), Serdes.long()
WORDS = [f"w{number}" for number in range(7)]


def counted_behind_two_repartitions(source: str, out: str) -> Any:
    """The first repartition reads each record of the source; the count is behind another one."""
    builder = StreamsBuilder()
    lines: Any = builder.stream(source, Consumed(string, string))
    words = lines.select_key(lambda _, line: line).repartition(Repartitioned("lines", string, string))
    counted = words.flat_map_values(str.split).group_by(lambda _, word: word, Grouped("words", string, string))
    counted.count(Materialized("counts", store_type="in_memory")).to_stream().to(out, Produced(string, long))
    return builder.build()


def unread(kafka: Kafka, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The repartition partitions whose committed offset is not their end, transaction markers included."""
    found = kafka.admin.list_topics(timeout=LIMIT).topics
    asked = [
        TopicPartition(topic, partition)
        for topic, about in found.items()
        if topic.startswith(group) and topic.endswith("-repartition")
        for partition in about.partitions
    ]
    assert len(asked) == 4
    ends = kafka.admin.list_offsets({partition: OffsetSpec.latest() for partition in asked})
    committed = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(LIMIT)
    at = {(p.topic, p.partition): p.offset for p in committed.topic_partitions}
    both = {(p.topic, p.partition): (at.get((p.topic, p.partition), 0), end.result(LIMIT).offset) for p, end in ends.items()}
    assert all(end for _, end in both.values()), "the threads have written to each other"
    return {partition: offsets for partition, offsets in both.items() if offsets[0] != offsets[1]}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_leave_no_blocks_to_java_and_go_on_exactly(
    kafka: Kafka, run: Run, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Two threads; the close comes in the middle of a backlog."""
    caplog.set_level(logging.WARNING)
    source, out = topics(kafka, "in", "out")
    application = unique("drained")
    config = {"application.id": application, "processing.guarantee": guarantee, "num.stream.threads": 2}
    sent: Counter[str] = Counter()
    for partition in (0, 1):
        words = [WORDS[number % 7] for number in range(10_000)]
        kafka.feed(source, texts(*((word, f"{word} {word}") for word in words)), partition=partition)
        sent.update({word: 2 * count for word, count in Counter(words).items()})
    streams = run(counted_behind_two_repartitions(source, out), {**config, "batch.max.records": 300})
    assert threads(streams) == {0, 1}
    wait_until(lambda: counts(kafka, out), "words are counted")
    assert streams.close(60_000)
    assert not unread(kafka, application)
    assert not [text for text in caplog.messages if "unread blocks" in text]
    before = sum(map(len, counts(kafka, out).values()))
    assert 0 < before < sent.total(), "the source topic has a backlog"
    again = run(counted_behind_two_repartitions(source, out), config)
    totals = {word: list(range(1, count + 1)) for word, count in sent.items()}
    wait_until(lambda: counts(kafka, out) == totals, "every word is counted once")
    wait_until(lambda: not inside(again).is_processing, "all threads are idle")
    assert again.close(60_000)
    assert not unread(kafka, application)
