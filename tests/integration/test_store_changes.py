"""The changes of stores as tables: what a changelog has, decoded, between two times, from the driver and from a query server."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from penstock import Consumed, Grouped, Materialized, Serdes, SessionWindows, StreamsBuilder, TimeWindows
from penstock.errors import InvalidStateStoreError
from penstock.kafka.dev_broker import free_port
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.integration.helpers import topics

text = Serdes.string()


def topology(source: str) -> Any:
    builder = StreamsBuilder()
    stream: Any = builder.stream(source, Consumed(text, text))
    grouped = stream.group_by_key(Grouped(key_serde=text, value_serde=text))
    grouped.count(Materialized("counts"))
    grouped.reduce(lambda old, new: None if new == "gone" else new, Materialized("latest"))
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    grouped.windowed_by(TimeWindows(minute, grace=hour)).count(Materialized("minutes"))
    grouped.windowed_by(SessionWindows(minute, grace=hour)).count(Materialized("visits"))
    return builder.build()


def rows(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=str)


def test_should_show_each_change_of_a_store(kafka: Kafka, run: Callable[..., Any], spark: Any) -> None:
    (source,) = topics(kafka, "in")
    at = int(time.time()) // 60 * 60_000  # brokers delete windows that are old
    address = f"localhost:{free_port()}"
    config = {"application.id": unique("changes"), "processing.guarantee": "exactly_once_v2", "application.server": address}
    streams = run(topology(source), config)
    for value, later in [("x", 1_000), ("y", 2_000), ("gone", 70_000), ("z", 3_000)]:
        kafka.feed(source, [Message(b"a", value.encode(), at + later)], partition=0)
    kafka.feed(source, [Message(b"b", b"x", at + 4_000)], partition=1)
    wait_until(lambda: streams.store_changes("counts").count() == 5, "five changes of counts")

    counts = streams.store_changes("counts")
    assert counts.columns == ["key", "value", "timestamp", "deleted", "partition", "offset"]
    assert rows(counts, "key", "value", "deleted", "partition") == [
        *[("a", count, False, 0) for count in (1, 2, 3, 4)],
        ("b", 1, False, 1),
    ]
    latest = streams.store_changes("latest")
    in_order = latest.where("partition = 0").orderBy("offset").collect()
    assert [(row.value, row.deleted) for row in in_order] == [("x", False), ("y", False), (None, True), ("z", False)]
    minutes = streams.store_changes("minutes")
    assert rows(minutes, "key", "window_start", "window_end", "value") == [
        ("a", at, at + 60_000, 1),
        ("a", at, at + 60_000, 2),
        ("a", at, at + 60_000, 3),
        ("a", at + 60_000, at + 120_000, 1),
        ("b", at, at + 60_000, 1),
    ]
    visits = streams.store_changes("visits")
    assert ("a", at + 1_000, at + 2_000, 2, False) in rows(visits, "key", "window_start", "window_end", "value", "deleted")
    assert ("a", at + 1_000, at + 1_000, None, True) in rows(visits, "key", "window_start", "window_end", "value", "deleted")

    def served(store: str, **options: str) -> Any:
        reader = spark.read.format("penstock").option("application.server", address).option("store", store)
        return reader.options(**options).option("changes", "true").load()

    assert rows(served("counts"), *counts.columns) == rows(counts, *counts.columns)
    assert rows(served("minutes"), *minutes.columns) == rows(minutes, *minutes.columns)
    iso = datetime.fromtimestamp(at // 1000 + 4, timezone.utc).isoformat()
    between = served("latest", **{"from": str(at + 2_000), "to": iso})
    assert rows(between, "value", "timestamp") == [("y", at + 2_000), ("z", at + 3_000)]
    for options, message in [({"from": "soon"}, "is no time"), ({"key": "a"}, "key cannot be given here")]:
        with pytest.raises(Exception, match=message):
            served("counts", **options)
    with pytest.raises(InvalidStateStoreError):
        streams.store_changes("none")
