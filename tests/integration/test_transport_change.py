"""A repartition that goes through the shuffle in one run and through its topic in the next: nothing is lost or doubled."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Serdes, State
from penstock.client.inside import inside
from penstock.hashing import default_partition
from penstock.runtime.carry_over import OffsetAndMetadata, with_own_offset
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import commit, counts, owned, texts, topics
from tests.integration.test_elastic import KEYS, QUICK, Feed
from tests.integration.test_takeover import kill, start_instance
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


def tasks(*instances: Any) -> list[list[str]]:
    """What each of the instances runs, once all of them do."""
    if any(instance.state is not State.RUNNING for instance in instances):
        return []
    return [sorted(map(str, owned(instance))) for instance in instances]


def shown(instance: Any) -> list[list[str]]:
    """The tasks that its page knows of."""
    with urllib.request.urlopen(f"http://{instance.server_host}/api/app", timeout=LIMIT) as answer:
        return [sorted(task["id"] for task in json.load(answer)["tasks"])]


def where(instance: Any, key: str) -> Any:
    """The instance that has a key, as another says it."""
    return instance.query_metadata_for_key("counts", key, Serdes.string()).active_host


def partition_of(key: str) -> int:
    return default_partition(key.encode(), 2)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_share_with_another_instance_what_it_shuffled_alone_and_shuffle_again(
    kafka: Kafka, run: Run, tmp_path: Path, guarantee: str
) -> None:
    """One task of each sub-topology each, by default; under load, and nothing is lost or doubled."""
    source, out = topics(kafka, "in", "out")
    application = unique("shared")
    config = {**QUICK, "application.id": application, "processing.guarantee": guarantee, "repartition.transport.delay.ms": 0}
    config["application.server"] = "localhost:0"
    first = run(word_count(source, out), {**config, "state.dir": str(tmp_path / "1")})
    repartition = f"{application}-counts-repartition"
    with Feed(kafka, source) as feed:
        wait_until(lambda: counts(kafka, out), "it counts")
        assert tasks(first) == shown(first) == [["1_0", "1_1"]]
        assert {where(first, key) for key in KEYS} == {first.server_host}
        assert not kafka.read(repartition)
        second = run(word_count(source, out), {**config, "state.dir": str(tmp_path / "2")})
        both = lambda: [{task[0] for task in some} for some in tasks(first, second)]  # noqa: E731
        wait_until(lambda: both() == [{"0", "1"}] * 2, "each has a task of each sub-topology")
        assert sorted(task for some in tasks(first, second) for task in some) == ["0_0", "0_1", "1_0", "1_1"]
        assert shown(first) == shown(second) == [["0_0", "0_1", "1_0", "1_1"]]
        holds = {f"1_{p}": one.server_host for one in (first, second) for p in (0, 1) if f"1_{p}" in tasks(one)[0]}
        assert all(where(one, key) == holds[f"1_{partition_of(key)}"] for key in KEYS for one in (first, second))
        known = {metadata.host_info: metadata.topic_partitions for metadata in first.metadata_for_all_streams_clients()}
        assert {host: {p.topic for p in held} for host, held in known.items()} == {
            one.server_host: {source, repartition} for one in (first, second)
        }
        wait_until(lambda: len(kafka.read(repartition)) > 0, "they write to the topic")
        rounds = feed.rounds
        wait_until(lambda: feed.rounds > rounds + 20, "they share the load for a while")
        second.close()
        wait_until(lambda: tasks(first) == [["1_0", "1_1"]], "it shuffles again")
        rounds = feed.rounds
        wait_until(lambda: feed.rounds > rounds + 20, "it has the load alone for a while")
    found = lambda: {word: numbers[-1] for word, numbers in counts(kafka, out).items()}  # noqa: E731
    if guarantee == "exactly_once_v2":
        wait_until(lambda: found() == dict.fromkeys(KEYS, feed.rounds), "every word is counted once")
        assert {word: sorted(set(numbers)) == numbers for word, numbers in counts(kafka, out).items()} == dict.fromkeys(
            KEYS, True
        )
    else:
        wait_until(lambda: all(found().get(key, 0) >= feed.rounds for key in KEYS), "every word is counted")
    assert first.state is State.RUNNING


@pytest.mark.slow  # sessions of Spark of their own, and the session timeout of the group
def test_should_be_exact_where_instances_are_killed_as_they_change_over(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    """First the leader, that has to leave the shuffle for all; then one that has just joined."""
    source, out = topics(kafka, "in", "out")
    application = unique("killed")
    arguments = [kafka.bootstrap_servers, application, source, out]
    config = {**QUICK, "application.id": application, "repartition.transport.delay.ms": 0, "state.dir": str(tmp_path / "mine")}
    with Feed(kafka, source) as feed:
        leader = start_instance([*arguments, str(tmp_path / "leader"), "words"], tmp_path / "leader.log")
        try:
            wait_until(lambda: counts(kafka, out), "it counts")
            mine = run(word_count(source, out), config, wait=False)
            wait_until(lambda: inside(mine).membership is not None, "the generation is told")
            assert inside(mine).membership.shuffled == ()
        finally:
            kill(leader)
        wait_until(lambda: tasks(mine) == [["1_0", "1_1"]], "it shuffles alone")
        rounds = feed.rounds
        wait_until(lambda: feed.rounds > rounds + 20, "it has the load alone for a while")
        other = start_instance([*arguments, str(tmp_path / "other"), "words"], tmp_path / "other.log")
        try:
            wait_until(lambda: inside(mine).membership.shuffled == (), "another has joined")
        finally:
            kill(other)
        wait_until(lambda: tasks(mine) == [["1_0", "1_1"]], "it shuffles alone")
        rounds = feed.rounds
        wait_until(lambda: feed.rounds > rounds + 20, "it has the load alone for a while")
    expected = dict.fromkeys(KEYS, feed.rounds)
    wait_until(lambda: last_counts(kafka, out) == expected, "every word is counted once")
    assert all(numbers == list(range(1, feed.rounds + 1)) for numbers in counts(kafka, out).values())
