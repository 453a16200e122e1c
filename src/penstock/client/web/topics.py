"""The latest records of the application's topics, deserialized with its serdes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from penstock.client.web.dead_letters import shown_bytes
from penstock.client.web.errors import HttpError
from penstock.config.streams_config import StreamsConfig
from penstock.printable import printable_lines
from penstock.record import RawRecord
from penstock.runtime.node_serdes import DefaultSerdes, source_deserializer
from penstock.spark.plan import Plan
from penstock.topology.specs import SourceSpec

MOST_RECORDS = 100
_DEFAULT_RECORDS = 20
_MOST_HEADERS = 20
_MOST_TEXT = 8_000


class LatestRecords(Protocol):
    """The broker requests of this module."""

    def last(self, topic: str, most: int) -> list[RawRecord]:
        """Return the last records of a topic."""


class _Topic(NamedTuple):
    kind: str
    source: SourceSpec | None


class TopicRecords:
    """Reads only topics of the topology.

    Input topics are deserialized with the serdes of their source. Other topics, and records that the serdes refuse, are shown
    as bytes.
    """

    def __init__(self, records: LatestRecords, config: StreamsConfig, plan: Callable[[], Plan]) -> None:
        self._records, self._config, self._plan = records, config, plan
        self._readers: dict[str, tuple[SourceSpec | None, _Reader]] = {}

    def list(self) -> dict[str, Any]:
        """Return the application's topics with their kinds."""
        return {"topics": [{"name": name, "kind": topic.kind} for name, topic in sorted(self._topics().items())]}

    def latest(self, name: str, limit: str | None = None) -> dict[str, Any]:
        """Return the latest records of a topic, newest first."""
        most = _limit(limit)
        topic = self._topics().get(name)
        if topic is None:
            raise HttpError(404, f"{name[:200]} is not a topic of this application")
        read = self._reader(name, topic.source)
        return {"topic": name, "kind": topic.kind, "records": [read(record) for record in self._records.last(name, most)]}

    def _reader(self, name: str, source: SourceSpec | None) -> _Reader:
        """Return a topic's reader, made once: default serdes may open clients."""
        known = self._readers.get(name)
        if known is None or known[0] is not source:
            known = self._readers[name] = source, _Reader(source, self._config)
        return known[1]

    def _topics(self) -> Mapping[str, _Topic]:
        found: dict[str, _Topic] = {}
        for part in self._plan().subtopologies.values():
            for topic in part.changelog_topics:
                found.setdefault(topic, _Topic("changelog", None))
            for topic in part.sink_topics:
                found.setdefault(topic, _Topic("output", None))
        for part in self._plan().subtopologies.values():
            sources = {topic: node for node in part.nodes if isinstance(node, SourceSpec) for topic in node.topics}
            for topic in part.source_topics:
                kind = "repartition" if topic in part.repartition_source_topics else "input"
                found[topic] = _Topic(kind, sources.get(topic))
        return found


class _Reader:
    """Converts records for display: with the application's serdes if possible, else as bytes."""

    def __init__(self, source: SourceSpec | None, config: StreamsConfig) -> None:
        self._key = self._value = None
        if source is not None:
            defaults = DefaultSerdes(config)
            self._key = source_deserializer(source.key_deserializer, defaults, "key", source.name)
            self._value = source_deserializer(source.value_deserializer, defaults, "value", source.name)

    def __call__(self, record: RawRecord) -> dict[str, Any]:
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _shown(self._key, record.topic, record.key),
            "value": _shown(self._value, record.topic, record.value),
            "headers": [{"name": name[:200], "value": shown_bytes(value, 500)} for name, value in record.headers[:_MOST_HEADERS]],
        }


def _shown(deserialize: Any, topic: str, data: bytes | None) -> dict[str, Any] | None:
    """Convert bytes for display. If the serde refuses them, the result contains the error."""
    if data is None:
        return None
    found = shown_bytes(data)
    if deserialize is None or found is None:
        return found
    try:
        value = deserialize(topic, data)
        text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    except Exception as exc:  # noqa: BLE001 - after any error of a serde the bytes are shown
        return {**found, "error": f"{type(exc).__name__}: {exc}"[:300]}
    cut = {"cut": True} if len(text) > _MOST_TEXT else {}
    return {"text": printable_lines(text[:_MOST_TEXT]), "size": len(data), **cut}


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_RECORDS
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MOST_RECORDS):
        raise HttpError(400, f"limit must be a number from 1 to {MOST_RECORDS}")
    return int(text)
