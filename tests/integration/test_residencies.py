"""Stream threads that are resident in a Spark task, with all that goes on beside them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from penstock.client.inside import inside
from tests.faults.dying import STEPS, Words
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.integration.helpers import counts, owned, texts, topics
from tests.integration.query_topologies import NamesAndTicks

Run = Callable[..., Any]
string, long = Serdes.string(), Serdes.long()
RESIDENT = ": process "


class Stream:
    """Records that come one by one, all the time."""

    def __init__(self, kafka: Kafka, source: str) -> None:
        self._kafka, self._source, self._stop = kafka, source, threading.Event()
        self.sent: Counter[str] = Counter()

    def go_on(self) -> None:
        number = 0
        while not self._stop.wait(0.01):
            word = f"w{number % 7}"
            self._kafka.feed(self._source, texts((word, word)), partition=number % 2)
            self.sent[word] += 1
            number += 1

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def streaming(kafka: Kafka, source: str) -> Iterator[Stream]:
    stream = Stream(kafka, source)
    thread = threading.Thread(target=stream.go_on)
    thread.start()
    try:
        yield stream
    finally:
        stream.stop()
        thread.join(LIMIT)


def jobs(streams: Any) -> dict[int, str]:
    """What Spark's UI shows of the last jobs of the session, by their ids. It forgets the oldest."""
    found = inside(streams).session.context._jsc.sc().statusStore().jobsList(None)
    described = {(job := found.apply(index)).jobId(): job.description() for index in range(found.size())}
    return {number: text.get() for number, text in described.items() if text.isDefined()}


def residencies(streams: Any, after: int = -1) -> int:
    """How many residencies began after the job with this id."""
    return sum(RESIDENT in text for number, text in jobs(streams).items() if number > after)


def last_job(streams: Any) -> int:
    return max(jobs(streams), default=-1)


def word_count(source: str, out: str, words: Any) -> Any:
    builder = StreamsBuilder()
    lines: Any = builder.stream(source, Consumed(string, string))
    grouped = lines.flat_map_values(words).group_by(lambda _, word: word, Grouped("words", string, string))
    grouped.count(Materialized("counts", store_type="in_memory")).to_stream().to(out, Produced(string, long))
    return builder.build()


def is_exact(kafka: Kafka, out: str, sent: Counter[str]) -> bool:
    return counts(kafka, out) == {word: list(range(1, count + 1)) for word, count in sent.items()}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_count_exactly_while_it_is_resident_pauses_and_is_read(kafka: Kafka, run: Run, guarantee: str) -> None:
    source, out = topics(kafka, "in", "out")
    streams = run(word_count(source, out, str.split), {"application.id": unique("stays"), "processing.guarantee": guarantee})
    with streaming(kafka, source) as stream:
        wait_until(lambda: residencies(streams), "the thread is resident")
        streams.pause()
        wait_until(lambda: not inside(streams).is_processing, "the thread is called back")
        streams.resume()
        before = last_job(streams)
        wait_until(lambda: residencies(streams, before), "the thread is resident again")
        wait_until(lambda: streams.store_dataframe("counts").count() == 7, "stores in memory are read meanwhile")
    wait_until(lambda: is_exact(kafka, out, stream.sent), "every word is counted once")


def test_should_fire_timers_and_see_changes_of_global_tables_while_it_is_resident(kafka: Kafka, run: Run) -> None:
    source, table, out = topics(kafka, "in", "names", "out")
    builder = StreamsBuilder()
    builder.global_table(table, Consumed(string, string), Materialized("names", string, string, store_type="in_memory"))
    builder.stream(source, Consumed(string, string)).process(NamesAndTicks).to(out, Produced(string, string))
    kafka.feed(table, texts(("w0", "Ada")))
    streams = run(builder.build(), {"application.id": unique("stays-globals")})

    def values(key: bytes) -> list[bytes | None]:
        return [message.value for message in kafka.read(out, 0) if message.key == key]

    with streaming(kafka, source):
        wait_until(lambda: residencies(streams) and len(values(b"ticks")) > 10, "timers fire while the thread is resident")
        kafka.feed(table, texts(("w0", "Ida")))
        wait_until(lambda: b"Ida" in values(b"w0"), "the table has changed")
    assert b"nobody" not in values(b"w0")
    named = values(b"w0")
    assert named == sorted(named)  # Ada, and from one record on Ida


@pytest.mark.slow  # two instances, one of which leaves again
def test_should_hand_tasks_over_and_keep_standbys_while_threads_are_resident(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=2)
    quick = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6_000}
    config = {"application.id": unique("stays-group"), "processing.guarantee": "exactly_once_v2", "num.standby.replicas": 1}

    def start(number: int) -> Any:
        return run(word_count(source, out, str.split), {**config, **quick, "state.dir": str(tmp_path / str(number))})

    def wait_for_residencies(streams: Any) -> None:
        before = last_job(streams)  # of all that share the session
        wait_until(lambda: residencies(streams, before) > 1, "threads are resident")

    with streaming(kafka, source) as stream:
        first = start(1)
        wait_for_residencies(first)
        second = start(2)
        wait_until(lambda: len(owned(first)) == len(owned(second)) == 2, "each has its part")
        wait_for_residencies(first)
        second.close(60_000)
        wait_until(lambda: len(owned(first)) == 4, "the other has taken it over")
        wait_for_residencies(first)
    wait_until(lambda: is_exact(kafka, out, stream.sent), "every word is counted once")


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["in memory", "by blocks"])
@pytest.mark.parametrize("steps", [("offsets sent", "committed"), pytest.param(STEPS, marks=pytest.mark.slow)])
def test_should_count_exactly_though_workers_die_in_the_middle_of_a_residency(
    kafka: Kafka, run: Run, tmp_path: Path, threads: int, steps: tuple[str, ...]
) -> None:
    source, out = topics(kafka, "in", "out")
    (orders := tmp_path / "orders").mkdir()
    words = Words(orders)
    config = {"application.id": unique("stays-die"), "processing.guarantee": "exactly_once_v2"}
    streams = run(word_count(source, out, words), {**config, "num.stream.threads": threads})
    with streaming(kafka, source) as stream:
        for step in steps:
            before = last_job(streams)
            wait_until(lambda before=before: residencies(streams, before), "the thread is resident")
            died = words.order(step)
            wait_until(died.exists, f"its worker has died: {step}")
    wait_until(lambda: is_exact(kafka, out, stream.sent), "every word is counted once")
