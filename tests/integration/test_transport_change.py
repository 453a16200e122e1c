"""A repartition that goes through the shuffle in one run and through its topic in the next: nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.hashing import default_partition
from penstock.runtime.carry_over import OffsetAndMetadata, with_own_offset
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import commit, counts, texts, topics
from tests.integration.topologies import word_count

Run = Callable[..., Any]

WORDS = [f"word-{number}" for number in range(8)]


def feed(kafka: Kafka, topic: str, rounds: int = 10) -> None:
    """Each word as often in each partition, in as many records."""
    for partition in (0, 1):
        kafka.feed(topic, texts(*((word, word) for _ in range(rounds) for word in WORDS)), partition=partition)


def last_counts(kafka: Kafka, topic: str) -> dict[str, int]:
    return {word: found[-1] for word, found in counts(kafka, topic).items()}


def test_should_count_each_record_once_whatever_way_repartitions_go_from_run_to_run(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "in", "out")
    application = unique("transport")
    for number, transport in enumerate(("shuffle", "topic", "shuffle", "topic"), 1):
        feed(kafka, source)
        config = {"application.id": application, "processing.guarantee": "exactly_once_v2", "repartition.transport": transport}
        streams = run(word_count(source, out), config)
        expected = dict.fromkeys(WORDS, 20 * number)
        wait_until(lambda: last_counts(kafka, out) == expected, f"{transport}: every word {20 * number} times")  # noqa: B023
        assert streams.close()


def test_should_read_what_is_left_in_the_topic_before_it_shuffles(kafka: Kafka, run: Run) -> None:
    """An application that died after its first half had committed, and before the second had read it."""
    source, out = topics(kafka, "in", "out")
    application = unique("left")
    repartition = f"{application}-counts-repartition"
    kafka.create(repartition)
    feed(kafka, source)
    kafka.feed(repartition, texts(*((word, word) for _ in range(20) for word in WORDS)))
    commit(kafka, application, {(source, p): (80, "") for p in (0, 1)})
    feed(kafka, source)
    config = {"application.id": application, "processing.guarantee": "exactly_once_v2", "repartition.transport": "shuffle"}
    run(word_count(source, out), config)
    wait_until(lambda: last_counts(kafka, out) == dict.fromkeys(WORDS, 40), "what was left, and what has come since")


def test_should_leave_out_what_a_task_had_when_it_writes_to_the_topic(kafka: Kafka, run: Run) -> None:
    """An application that died in the midst of a turn: one task behind the shuffle had committed it, another had not."""
    source, out = topics(kafka, "in", "out")
    application = unique("had")
    repartition = f"{application}-counts-repartition"
    kafka.create(repartition)
    feed(kafka, source)
    commit(
        kafka,
        application,
        {
            (repartition, 0): (0, f"|80|{source}=40,40"),
            (repartition, 1): (0, f"|0|{source}=0,0"),
            (source, 0): (0, with_own_offset(OffsetAndMetadata(0)).metadata),
            (source, 1): (0, with_own_offset(OffsetAndMetadata(0)).metadata),
        },
    )
    config = {"application.id": application, "processing.guarantee": "exactly_once_v2", "repartition.transport": "topic"}
    streams = run(word_count(source, out), config)
    expected = {word: 10 if default_partition(word.encode(), 2) == 0 else 20 for word in WORDS}
    assert len(set(expected.values())) == 2
    wait_until(lambda: last_counts(kafka, out) == expected, "each task has the rest of its records")
    feed(kafka, source)
    more = {word: count + 20 for word, count in expected.items()}
    wait_until(lambda: last_counts(kafka, out) == more, "and all that come")
    assert streams.close()
    written = Counter((message.key or b"").decode() for message in kafka.read(repartition))
    assert written == more


def test_should_go_on_where_offsets_before_a_shuffle_were_moved_to(kafka: Kafka, run: Run) -> None:
    """Back and forward, with what consumer-group tools do to a group that is empty; once, and not at every start."""
    source, out = topics(kafka, "in", "out")
    config = {
        "application.id": unique("moved"),
        "processing.guarantee": "exactly_once_v2",
        "repartition.transport": "shuffle",
        "task.spread": "always",
    }
    feed(kafka, source)
    streams = run(word_count(source, out), config)
    wait_until(lambda: last_counts(kafka, out) == dict.fromkeys(WORDS, 20), "every word 20 times")
    assert streams.close()
    feed(kafka, source)
    commit(kafka, config["application.id"], {(source, 0): (0, ""), (source, 1): (120, "")})
    streams = run(word_count(source, out), config)
    wait_until(lambda: last_counts(kafka, out) == dict.fromkeys(WORDS, 45), "all of one partition, and a quarter of the other")
    assert streams.close()
    feed(kafka, source, rounds=1)
    run(word_count(source, out), config)
    wait_until(lambda: last_counts(kafka, out) == dict.fromkeys(WORDS, 47), "what has come since, and nothing again")
