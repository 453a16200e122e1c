"""The join with a DataFrame of Spark: loaded before the start, given to all threads, refreshed while records come."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumed, Produced, Serdes, StreamsBuilder
from penstock.errors import StreamsError
from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import texts, topics

text = Serdes.string()


def topology(source: str, out: str, make: Callable[..., Any], refresh: timedelta | None) -> Any:
    builder = StreamsBuilder()
    stream: Any = builder.stream(source, Consumed(text, text))
    placed = stream.join_dataframe(make, lambda page, user: f"{page} from {user['city']}", on="user", refresh=refresh)
    placed.to(out, Produced(text, text))
    return builder.build()


def values(kafka: Kafka, topic: str) -> set[str]:
    return {(message.value or b"").decode() for message in kafka.read(topic)}


def test_should_join_with_a_dataframe_and_with_what_becomes_of_it(
    kafka: Kafka, run: Callable[..., Any], spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, out = topics(kafka, "in", "out")
    city, table = tmp_path / "city", str(tmp_path / "users")
    city.write_text("Oslo")

    def make(session: Any) -> Any:
        if city.read_text() == "gone":
            raise OSError("the lake is away")
        session.createDataFrame([(f"u{n}", city.read_text()) for n in range(200)], "user string, city string").write.parquet(
            table, mode="overwrite"
        )
        return session.read.parquet(table)

    config = {"application.id": unique("frames"), "processing.guarantee": "exactly_once_v2", "num.stream.threads": 2}
    streams = run(topology(source, out, make, timedelta(seconds=1)), config)

    def feed(page: str) -> None:
        for partition in (0, 1):
            kafka.feed(
                source, texts(("u1", f"{page}{partition}"), ("u150", f"{page}{partition}"), ("who", page)), partition=partition
            )

    feed("a")
    wait_until(lambda: values(kafka, out) == {"a0 from Oslo", "a1 from Oslo"}, "the rows of the first load")
    city.write_text("Rome")

    def is_refreshed() -> bool:
        feed("b")
        return {"b0 from Rome", "b1 from Rome"} <= values(kafka, out)

    wait_until(is_refreshed, "both threads have the rows of a refresh", interval=0.5)
    with caplog.at_level(logging.WARNING):
        city.write_text("gone")
        wait_until(lambda: "the lake is away" in caplog.text, "a refresh has failed")
    feed("c")
    wait_until(lambda: {"c0 from Rome", "c1 from Rome"} <= values(kafka, out), "the rows are kept")
    assert streams.state.name == "RUNNING"


def test_should_end_the_start_if_the_first_load_fails(kafka: Kafka, run: Callable[..., Any], spark: Any) -> None:
    source, out = topics(kafka, "in", "out")
    made = topology(source, out, lambda session: session.read.parquet("/nowhere/users"), None)
    with pytest.raises(StreamsError, match=r"the DataFrame cannot be read.*/nowhere/users"):
        run(made, {"application.id": unique("frames")})
