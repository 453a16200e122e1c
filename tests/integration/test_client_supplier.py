"""Kafka clients of the user's own, on the driver and in Spark's workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import Consumed, Produced, Serdes, StreamsBuilder
from tests.harness.kafka import Kafka, Message, unique
from tests.integration.helpers import topics
from tests.integration.own_clients import Noting

Run = Callable[..., Any]


def test_should_make_clients_with_the_supplier_on_the_driver_and_in_workers(kafka: Kafka, run: Run, tmp_path: Path) -> None:
    source, out = topics(kafka, "in", "out", partitions=1)
    text = Serdes.string()
    builder = StreamsBuilder()
    builder.stream(source, Consumed(text, text)).map_values(str.upper).to(out, Produced(text, text))
    kafka.feed(source, [Message(b"k", b"v", int(time.time() * 1000))])
    notes = tmp_path / "clients"
    notes.mkdir()
    run(builder.build(), {"application.id": unique("clients"), "default.client.supplier": Noting(notes)})
    assert [message.value for message in kafka.read(out, 1)] == [b"V"]
    made = {tuple(file.name.split("-")) for file in notes.iterdir()}
    assert {"producer", "consumer", "admin"} <= {kind for kind, _ in made}
    assert str(os.getpid()) in {process for kind, process in made if kind == "admin"}
    assert any(process != str(os.getpid()) for kind, process in made if kind == "producer")
