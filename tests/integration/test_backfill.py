"""A backfill processes what there is when it starts, exactly once, and then goes live there or ends there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import (
    Consumed,
    Grouped,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    SparkHistory,
    StreamsBuilder,
    TimeWindows,
    WindowedSerdes,
)
from tests.conftest import application_config
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.helpers import counts, topics

string, long = Serdes.string(), Serdes.long()
MINUTE = 60_000
START = 1_700_000_000_000 // MINUTE * MINUTE
KEYS = [f"key {number}" for number in range(5)]

Make = Callable[..., KafkaStreams]


@pytest.fixture
def make(kafka: Kafka, spark: Any, tmp_path: Path) -> Iterator[Make]:
    """Applications that are not started; all are closed at the end."""
    made: list[KafkaStreams] = []

    def create(topology: Any, application: str, **config: Any) -> KafkaStreams:
        own = {"application.id": application, "processing.guarantee": "exactly_once_v2", "num.stream.threads": 2}
        settings = application_config(kafka, tmp_path, {**own, "statestore.cache.max.bytes": 1 << 20, **config})
        made.append(KafkaStreams(topology, settings, spark=spark))
        return made[-1]

    yield create
    for streams in made:
        streams.close(60_000)


def windowed_counts(source: str, out: str) -> Any:
    """Counts of words by minute, behind a repartition."""
    builder = StreamsBuilder()
    words: Any = builder.stream(source, Consumed(string, string)).group_by(lambda _, word: word, Grouped("words", string, string))
    windows = words.windowed_by(TimeWindows(MINUTE, grace=24 * 60 * MINUTE))
    table = windows.count(Materialized("counts", key_serde=string, value_serde=long))
    table.to_stream().to(out, Produced(WindowedSerdes.time_windowed(string, MINUTE), long))
    return builder.build()


def records(first: int, count: int) -> list[Message]:
    """A record a second, each with the next key."""
    return [Message(None, KEYS[n % 5].encode(), START + 1000 * n) for n in range(first, first + count)]


def expected(count: int) -> dict[tuple[str, int], int]:
    """The count of each key and window after so many records."""
    return dict(Counter((KEYS[n % 5], (START + 1000 * n) // MINUTE * MINUTE) for n in range(count)))


def last_counts(kafka: Kafka, topic: str) -> dict[tuple[str, int], int]:
    """The last count of each key and window; no count comes twice, or goes back."""
    found: dict[tuple[str, int], int] = {}
    for message in kafka.read(topic):
        key = message.key or b""
        window = key[:-8].decode(), int.from_bytes(key[-8:], "big")
        number = int.from_bytes(message.value or b"", "big")
        assert number > found.get(window, 0), f"{window} was counted up to {found.get(window)} and then {number}"
        found[window] = number
    return found


def feed(kafka: Kafka, topic: str, first: int, count: int) -> None:
    sent = records(first, count)
    for partition in (0, 1):
        kafka.feed(topic, sent[partition::2], partition=partition)


def test_should_end_where_the_topics_ended_and_go_on_exactly_there(kafka: Kafka, make: Make) -> None:
    """Without going live: nothing beyond the ends is read. The next one goes live, and reads what comes then."""
    source, out = topics(kafka, "in", "out")
    application = unique("backfill")
    feed(kafka, source, 0, 6_000)
    first = make(windowed_counts(source, out), application)
    at = datetime.fromtimestamp((START + 4_000_000) / 1000, timezone.utc)
    first.backfill(until=at, then_live=False)
    assert first.state.name == "NOT_RUNNING"
    committed = kafka.committed(application)
    assert {p: committed[source, p] for p in (0, 1)} == {0: 2_000, 1: 2_000}
    assert last_counts(kafka, out) == expected(4_000)
    second = make(windowed_counts(source, out), application)
    second.backfill()
    assert second.state.is_running_or_rebalancing
    assert second.backfill_progress is None
    assert last_counts(kafka, out) == expected(6_000)
    feed(kafka, source, 6_000, 500)
    wait_until(lambda: last_counts(kafka, out) == expected(6_500), "what comes after the backfill is counted")


def test_should_have_nothing_to_do_where_all_is_read(kafka: Kafka, make: Make) -> None:
    source, out = topics(kafka, "in", "out")
    make(windowed_counts(source, out), unique("backfill")).backfill(then_live=False)
    assert counts(kafka, out) == {}


def table_of(folder: Path, rows: list[Message], name: str = "history") -> str:
    """A Parquet table with these records, in no order."""
    folder = folder / name
    folder.mkdir()
    shuffled = random.Random(7).sample(rows, len(rows))
    for number in range(3):
        part = shuffled[number::3]
        columns = {"word": [row.value for row in part], "at": [row.timestamp for row in part]}
        times = pa.array(columns["at"], pa.timestamp("ms", "UTC"))
        text = pa.array([(value or b"").decode() for value in columns["word"]])
        pq.write_table(pa.table({"key": text, "value": text, "timestamp": times}), folder / f"part-{number}.parquet")
    return str(folder)


def windowed_counts_with(history: SparkHistory, source: str, out: str) -> Any:
    """Counts of words by minute, behind a repartition, of a table and then the topic."""
    builder = StreamsBuilder()
    lines: Any = builder.stream(source, Consumed(string, string, history=history))
    words = lines.group_by(lambda _, word: word, Grouped("words", string, string))
    windows = words.windowed_by(TimeWindows(MINUTE, grace=24 * 60 * MINUTE))
    table = windows.count(Materialized("counts", key_serde=string, value_serde=long))
    table.to_stream().to(out, Produced(WindowedSerdes.time_windowed(string, MINUTE), long))
    return builder.build()


def test_should_read_a_table_and_then_the_topic_without_gap_or_repeat(kafka: Kafka, make: Make, tmp_path: Path) -> None:
    """The topic has a part of what the table has, and more. The first application is closed in the middle of history."""
    source, out = topics(kafka, "in", "out")
    application = unique("history")
    table = table_of(tmp_path, records(0, 6_000))
    feed(kafka, source, 5_000, 1_500)  # a table that overlaps the topic: until cuts it off
    history = SparkHistory(table, until=datetime.fromtimestamp((START + 5_500_000) / 1000, timezone.utc))
    first = make(windowed_counts_with(history, source, out), application, **{"batch.max.records": 300})
    first.start()
    wait_until(lambda: len(kafka.read(out)) > 0 and any(kafka.committed(application).values()), "some of the history is read")
    assert first.close(60_000)
    feed(kafka, source, 6_500, 300)
    second = make(windowed_counts_with(history, source, out), application)
    second.backfill()
    assert last_counts(kafka, out) == expected(6_800)
    feed(kafka, source, 6_800, 200)
    wait_until(lambda: last_counts(kafka, out) == expected(7_000), "what comes after history is counted")
    wait_until(lambda: not any((tmp_path / "state" / application / "history").glob("*/*")), "the files are deleted")


def test_should_process_two_histories_in_the_order_of_time(kafka: Kafka, make: Make, tmp_path: Path) -> None:
    """A stream joined with a table, both from history: each record finds the value that the table had then."""
    views, users, out = topics(kafka, "views", "users", "out")
    changes = [Message(key.encode(), f"{n}".encode(), START + 60_000 * n) for n in range(50) for key in KEYS]
    seen = [Message(key.encode(), f"{n}".encode(), START + 60_000 * n + 1000) for n in range(50) for key in KEYS]
    builder = StreamsBuilder()
    for topic, rows in ((views, seen), (users, changes)):
        (tmp_path / topic).mkdir()
        columns = {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        }
        pq.write_table(pa.table(columns), tmp_path / topic / "part.parquet")
    stream: Any = builder.stream(views, Consumed(string, string, history=SparkHistory(str(tmp_path / views))))
    table: Any = builder.table(
        users, Consumed(string, string, history=SparkHistory(lambda spark: spark.read.parquet(str(tmp_path / users))))
    )
    stream.join(table, lambda view, user: f"{view}={user}").to(out, Produced(string, string))
    make(builder.build(), unique("joined"), **{"max.task.idle.ms": -1}).backfill(then_live=False)
    found = sorted((message.value or b"").decode() for message in kafka.read(out))
    assert found == sorted(f"{n}={n}" for n in range(50) for _ in KEYS)
