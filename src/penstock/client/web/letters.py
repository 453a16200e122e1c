"""Dead letters for people: what is in the dead letter topics, and back to where it came from."""

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
"""Says of a record that it was a dead letter: the topic, partition and offset where it lies."""

MOST_LETTERS = 200
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
    """What is asked of the brokers."""

    def last(self, topic: str, most: int) -> list[RawRecord]:
        """The last records of a topic."""

    def one(self, at: TopicPartition, offset: int) -> RawRecord | None:
        """One record."""

    def partitions(self, topics: list[str]) -> Mapping[str, int]:
        """How many partitions topics have."""

    def write(self, record: ProducedRecord) -> TopicPartition:
        """Write a record."""


class Letters:
    """Reads the topics that dead letters went to, and no others; writes to topics that the application reads, and no others."""

    def __init__(self, topics: Topics, names: Callable[[], Iterable[str]], sources: Callable[[], Iterable[str]]) -> None:
        self._topics = topics
        self._names = names
        self._sources = sources
        self._replayed: dict[tuple[str, int, int], int] = {}
        self._replaying = threading.Lock()

    def list(self, topic: str | None = None) -> dict[str, Any]:
        """The last letters of one topic, or of all; grouped by what went wrong by whoever shows them."""
        known = sorted(set(self._names()))
        if topic and topic not in known:
            raise HttpError(
                404, f"{topic[:200]} is no dead letter topic of this application; there are: {', '.join(known) or 'none'}"
            )
        there = self._topics.partitions(known) if known else {}
        wanted = [name for name in ([topic] if topic else known) if name in there]
        share = MOST_LETTERS // max(1, len(wanted))
        sources = set(self._sources())
        found = [self._letter(record, sources) for name in wanted for record in self._topics.last(name, share)]
        found.sort(key=lambda letter: -letter["time"])
        return {"topics": known, "missing": [name for name in known if name not in there], "letters": found, "most": share}

    def replay(self, body: bytes) -> dict[str, Any]:
        """Write the input record of a letter to the partition it came from once more.

        1. Find the letter where it is said to lie, in a topic for dead letters.
        2. Find out where it came from: a topic that the application reads.
        3. Write key, value, timestamp and headers as they were, with one header that tells where from.
        """
        at, offset, again = _asked(body)
        if at.topic not in set(self._names()):
            raise HttpError(404, f"{at.topic[:200]} is no dead letter topic of this application")
        with self._replaying:  # two at once could both find that it was not done yet
            done = self._replayed.get((at.topic, at.partition, offset))
            if done is not None and not again:
                raise HttpError(409, f"the dead letter at {at} @ {offset} was replayed already; say so if it should be once more")
            record = self._topics.one(at, offset)
            if record is None:
                raise HttpError(404, f"there is no record at {at} @ {offset} any more")
            target = self._target(record)
            kept = tuple((name, value) for name, value in record.headers if name not in _ERRORS and name != HEADER_REPLAYED)
            origin = (HEADER_REPLAYED, f"{at.topic}-{at.partition}@{offset}".encode())
            written = ProducedRecord(target.topic, target.partition, record.key, record.value, record.timestamp, (*kept, origin))
            self._topics.write(written)
            now = round(wall_time() * 1000)
            self._replayed[at.topic, at.partition, offset] = now
            while len(self._replayed) > _REMEMBERED:
                del self._replayed[next(iter(self._replayed))]
        _log.warning("the dead letter at %s @ %d was written to %s again, as somebody asked for on the page", at, offset, target)
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
    """Bytes as people read them: text where they are text, hexadecimal digits elsewhere; the beginning of what is long.

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
        raise HttpError(400, f"what is sent should be JSON with topic, partition and offset: {exc}") from exc
    match found:
        case {"topic": str() as topic, "partition": int() as partition, "offset": int() as offset} if (
            0 <= partition < 2**31 and 0 <= offset < 2**63
        ):
            return TopicPartition(topic, partition), offset, found.get("again") is True
        case _:
            raise HttpError(400, "what is sent should be JSON with topic, partition and offset of a dead letter")


def _why_not(topic: str | None, partition: int | None, sources: set[str]) -> str | None:
    """Why a letter cannot go back; None where it can."""
    if topic is None or partition is None:
        return "nothing tells where it came from: the handler wrote it without the headers that do"
    if topic not in sources:
        return f"it came from {topic[:200]}, which is no input topic of this application"
    return None


def _headers(record: RawRecord) -> dict[str, str]:
    """The last of each name counts: a record that failed before may bring headers of an earlier failure."""
    return {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
