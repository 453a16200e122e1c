"""Records that run code wherever somebody unpickles a part of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

SIDE_OUTPUT = "penstock.side.output"
"""A header by this name once said that the record's value is a pickled output."""


class _Touch:
    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        return open, (self._path, "w")


def payload(mark: Path) -> bytes:
    """Bytes that make a file where they are unpickled; they are ASCII, so that they come through a serde of strings unchanged."""
    data = pickle.dumps(_Touch(mark), protocol=0)
    pickle.loads(data).close()
    assert mark.exists(), "the attack works"
    mark.unlink()
    return data


def hostile_headers(data: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """Headers with the payload in every place, and with what the library itself puts into headers."""
    return (
        (SIDE_OUTPUT, data),
        (SIDE_OUTPUT, None),
        ("__streams.errors.topic", data),
        ("__streams.errors.partition", b"\xff"),
        ("__streams.errors.offset", b"9" * 5000),
        ("v", data),
        ("", b""),
        ("ünïcödé \U0001f600", data),
    )


class NotText(str):
    """The name of a header that kafka-python writes as it is, and that is no UTF-8."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfe name"


def feed_header_that_is_no_text(bootstrap_servers: str, topic: str, key: bytes, value: bytes) -> None:
    """Write a record with such a header; other clients than kafka-python do not."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    try:
        producer.send(topic, value, key, headers=[(NotText("any"), b"1")], partition=0).get(60)
    finally:
        producer.close()
