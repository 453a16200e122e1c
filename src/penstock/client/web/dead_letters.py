"""Dead letters in the console: reading dead letter topics, and writing records back to their source topics."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from penstock.client.web.errors import HttpError
from penstock.client.web.history import first_line
from penstock.clock import wall_time
from penstock.dead_letters import (
    HEADER_ERRORS_EXCEPTION,
    HEADER_ERRORS_MESSAGE,
    HEADER_ERRORS_OFFSET,
    HEADER_ERRORS_PARTITION,
    HEADER_ERRORS_STACKTRACE,
    HEADER_ERRORS_TOPIC,
)
from penstock.ids import TopicPartition
from penstock.record import ProducedRecord, RawRecord

_log = logging.getLogger(__name__)

HEADER_REPLAYED = "__penstock.replayed.from"
"""The header of a replayed record: topic, partition and offset of the dead letter."""

MOST_DEAD_LETTERS = 200
_MOST_TEXT = 8_000
_MOST_TRACEBACK = 16_000
_MOST_HEADERS = 50
_REMEMBERED = 1_000
_ERRORS = frozenset(
    {
        HEADER_ERRORS_EXCEPTION,
        HEADER_ERRORS_MESSAGE,
        HEADER_ERRORS_STACKTRACE,
        HEADER_ERRORS_TOPIC,
        HEADER_ERRORS_PARTITION,
        HEADER_ERRORS_OFFSET,
    }
)


class Topics(Protocol):
    """The broker requests of this module."""

    def last(self, topic: str, most: int) -> list[RawRecord]:
        """Return the last records of a topic."""

    def one(self, at: TopicPartition, offset: int) -> RawRecord | None:
        """Return one record."""

    def partitions(self, topics: list[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""

    def write(self, record: ProducedRecord) -> TopicPartition:
        """Write a record and return its partition."""


class DeadLetters:
    """Reads only dead letter topics of the application, and writes only to its input topics."""

    def __init__(self, topics: Topics, names: Callable[[], Iterable[str]], sources: Callable[[], Iterable[str]]) -> None:
        self._topics = topics
        self._names = names
        self._sources = sources
        self._replayed: dict[tuple[str, int, int], int] = {}
        self._replaying = threading.Lock()

    def list(self, topic: str | None = None) -> dict[str, Any]:
        """Return the last dead letters of one or all topics, ungrouped."""
        known = sorted(set(self._names()))
        if topic and topic not in known:
            raise HttpError(
                404, f"{topic[:200]} is not a dead letter topic of this application. Available: {', '.join(known) or 'none'}"
            )
        there = self._topics.partitions(known) if known else {}
        wanted = [name for name in ([topic] if topic else known) if name in there]
        share = MOST_DEAD_LETTERS // max(1, len(wanted))
        sources = set(self._sources())
        found = [self._letter(record, sources) for name in wanted for record in self._topics.last(name, share)]
        found.sort(key=lambda letter: -letter["time"])
        return {"topics": known, "missing": [name for name in known if name not in there], "letters": found, "most": share}

    def replay(self, body: bytes) -> dict[str, Any]:
        """Write the input record of a dead letter back to its source partition.

        1. Read the dead letter at the given position of a dead letter topic.
        2. Determine its source, which must be an input topic of the application.
        3. Write key, value, timestamp and headers unchanged, with an additional header for its position.
        """
        at, offset, again = _asked(body)
        if at.topic not in set(self._names()):
            raise HttpError(404, f"{at.topic[:200]} is not a dead letter topic of this application")
        with self._replaying:  # so that concurrent requests cannot replay a record twice
            done = self._replayed.get((at.topic, at.partition, offset))
            if done is not None and not again:
                raise HttpError(409, f"the dead letter at {at} @ {offset} was replayed already; set `again` to repeat it")
            record = self._topics.one(at, offset)
            if record is None:
                raise HttpError(404, f"the record at {at} @ {offset} no longer exists")
            target = self._target(record)
            kept = tuple((name, value) for name, value in record.headers if name not in _ERRORS and name != HEADER_REPLAYED)
            origin = (HEADER_REPLAYED, f"{at.topic}-{at.partition}@{offset}".encode())
            written = ProducedRecord(target.topic, target.partition, record.key, record.value, record.timestamp, (*kept, origin))
            self._topics.write(written)
            now = round(wall_time() * 1000)
            self._replayed[at.topic, at.partition, offset] = now
            while len(self._replayed) > _REMEMBERED:
                del self._replayed[next(iter(self._replayed))]
        _log.warning("The dead letter at %s @ %d was written back to %s on request of a console user", at, offset, target)
        return {"topic": target.topic, "partition": target.partition, "replayed": now}

    def _target(self, record: RawRecord) -> TopicPartition:
        headers = _headers(record)
        topic, partition = headers.get(HEADER_ERRORS_TOPIC), _number(headers.get(HEADER_ERRORS_PARTITION))
        reason = _why_not(topic, partition, set(self._sources()))
        if reason is not None:
            raise HttpError(400, reason)
        assert topic is not None
        assert partition is not None
        count = self._topics.partitions([topic]).get(topic, 0)
        if partition >= count:
            raise HttpError(400, f"it came from {topic}-{partition}, but the topic has {count} partitions now")
        return TopicPartition(topic, partition)

    def _letter(self, record: RawRecord, sources: set[str]) -> dict[str, Any]:
        headers = _headers(record)
        topic, partition = headers.get(HEADER_ERRORS_TOPIC), _number(headers.get(HEADER_ERRORS_PARTITION))
        message = headers.get(HEADER_ERRORS_MESSAGE)
        return {
            "at": {"topic": record.topic, "partition": record.partition, "offset": record.offset},
            "time": record.timestamp,
            "exception": (headers.get(HEADER_ERRORS_EXCEPTION) or "")[:200] or None,
            "message": (message or "")[:2_000] or None,
            "cause": first_line(message),
            "traceback": (headers.get(HEADER_ERRORS_STACKTRACE) or "")[-_MOST_TRACEBACK:] or None,
            "from": {
                "topic": topic and topic[:250],
                "partition": partition,
                "offset": _number(headers.get(HEADER_ERRORS_OFFSET)),
            },
            "key": shown_bytes(record.key),
            "value": shown_bytes(record.value),
            "headers": [
                {"name": name[:200], "value": shown_bytes(value, 500)}
                for name, value in record.headers[:_MOST_HEADERS]
                if name not in _ERRORS
            ],
            "replayed": self._replayed.get((record.topic, record.partition, record.offset)),
            "why_not": _why_not(topic, partition, sources),
        }


def shown_bytes(data: bytes | None, most: int = _MOST_TEXT) -> dict[str, Any] | None:
    """Convert bytes for display: text if possible, else hexadecimal. Long values are cut.

    >>> shown_bytes(b"a b"), shown_bytes(bytes([0, 255])), shown_bytes(None)
    ({'text': 'a b', 'size': 3}, {'hex': '00ff', 'size': 2}, None)
    """
    if data is None:
        return None
    found: dict[str, Any]
    try:
        text = data.decode()
        if any(ord(letter) < 32 and letter not in "\t\r\n" for letter in text[:most]):
            raise ValueError("it has characters that cannot be shown")
        found = {"text": text[:most], "size": len(data)}
        cut = len(text) > most
    except ValueError:
        found, cut = {"hex": data[: most // 2].hex(), "size": len(data)}, len(data) > most // 2
    return {**found, "cut": True} if cut else found


def _asked(body: bytes) -> tuple[TopicPartition, int, bool]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise HttpError(400, f"the body must be JSON with topic, partition and offset: {exc}") from exc
    match found:
        case {"topic": str() as topic, "partition": int() as partition, "offset": int() as offset} if (
            0 <= partition < 2**31 and 0 <= offset < 2**63
        ):
            return TopicPartition(topic, partition), offset, found.get("again") is True
        case _:
            raise HttpError(400, "the body must be JSON with topic, partition and offset of a dead letter")


def _why_not(topic: str | None, partition: int | None, sources: set[str]) -> str | None:
    """Return why a dead letter cannot be replayed, or None."""
    if topic is None or partition is None:
        return "its origin is unknown: the handler wrote it without the error headers"
    if topic not in sources:
        return f"its origin {topic[:200]} is not an input topic of this application"
    return None


def _headers(record: RawRecord) -> dict[str, str]:
    """Return the headers by name. The last one of a name counts: an earlier failure may have left others."""
    return {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
