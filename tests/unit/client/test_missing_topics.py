from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from penstock import Consumed, Grouped, JoinWindows, Serdes, StreamsBuilder, StreamsConfig
from penstock.client.missing_topics import BROKERS_DEFAULT, missing_topics

TEXT = Serdes.string()
CONFIG = StreamsConfig({"application.id": "app", "bootstrap.servers": "localhost:9"})


def missing(builder: StreamsBuilder, **existing: int) -> dict[str, int]:
    return missing_topics(builder.build(), CONFIG, existing)


def stream(builder: StreamsBuilder, topic: str) -> Any:
    return builder.stream(topic, Consumed(TEXT, TEXT))


def test_should_name_sources_and_sinks_and_no_internal_topic() -> None:
    builder = StreamsBuilder()
    stream(builder, "lines").group_by(lambda _, word: word, Grouped("words", TEXT, TEXT)).count().to_stream().to("counts")
    assert missing(builder) == {"counts": BROKERS_DEFAULT, "lines": BROKERS_DEFAULT}
    assert missing(builder, lines=4) == {"counts": BROKERS_DEFAULT}


def test_should_name_the_topics_of_tables_and_global_tables() -> None:
    builder = StreamsBuilder()
    builder.table("users", Consumed(TEXT, TEXT)).to_stream().to("out")
    builder.global_table("rates", Consumed(TEXT, TEXT))
    assert missing(builder).keys() == {"users", "rates", "out"}


def test_should_give_a_joined_topic_as_many_partitions_as_the_other_has() -> None:
    builder = StreamsBuilder()
    windows = JoinWindows(timedelta(seconds=1), grace=0)
    stream(builder, "left").join(stream(builder, "right"), lambda a, b: a + b, windows).to("out")
    assert missing(builder, left=6) == {"out": BROKERS_DEFAULT, "right": 6}


def test_should_name_nothing_for_patterns_and_chosen_sinks() -> None:
    builder = StreamsBuilder()
    stream(builder, re.compile("orders-.*")).to(lambda key, value, context: value)
    assert missing(builder) == {}
