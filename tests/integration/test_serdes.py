"""Serdes of the user's own on Spark: made and configured in the workers, with headers through shuffle and columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from penstock import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from tests.harness.kafka import Kafka, Message, unique
from tests.integration.helpers import topics
from tests.integration.own_serdes import Sale, Signed

Run = Callable[..., Any]


def test_should_sum_objects_and_sign_results_in_workers(kafka: Kafka, run: Run) -> None:
    source, out = topics(kafka, "sales", "turnover", partitions=2)
    sales = Serdes.json(Sale)
    builder = StreamsBuilder()
    grouped = builder.stream(source, Consumed(Serdes.string(), sales)).group_by(
        lambda _, sale: sale.product, Grouped("by-product", Serdes.string(), sales)
    )
    table = grouped.reduce(
        lambda one, two: Sale(one.product, one.price + two.price), Materialized("turnover", Serdes.string(), sales)
    )
    table.to_stream().map_values(lambda sale: str(sale.price)).to(out, Produced(Serdes.string()))
    now = int(time.time() * 1000)
    records = [Message(b"k", json.dumps({"product": "ab"[i % 2], "price": "0.10"}).encode(), now) for i in range(100)]
    kafka.feed(source, records)
    run(builder.build(), {"application.id": unique("signed"), "default.value.serde": Signed, "__signature": "mine"})
    last = {message.key: message for message in kafka.read(out, 2)}
    assert {key: message.value for key, message in last.items()} == {b"a": b"5.00", b"b": b"5.00"}
    assert {message.headers for message in last.values()} == {(("signed", b"mine-value"),)}
