"""Headers for the serdes of stores: those of the record that is being processed.

A store's serializer may add headers. They stay with the record while its node works, as in Kafka Streams: later calls of serdes
see them, a cache keeps them with the entry, and what the node forwards with the record's own headers carries them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from penstock.record import Headers, RecordContext
from penstock.serdes.contract import OpenHeaders, wants_headers


class HasRecordContext(Protocol):
    """A context that knows the record being processed."""

    @property
    def record_context(self) -> RecordContext | None: ...  # noqa: D102

    def set_record_context(self, context: RecordContext | None) -> None: ...  # noqa: D102


class AddedHeaders(tuple[tuple[str, "bytes | None"], ...]):
    """The headers of a record and those that serializers have added; `before` is the tuple that the record came with."""

    before: Headers

    @classmethod
    def of(cls, before: Headers, headers: OpenHeaders) -> AddedHeaders:
        """The changed headers of a record."""
        added = cls(headers)
        added.before = own_headers(before)
        return added


NEW_HEADERS: Headers = AddedHeaders()
"""No headers, told apart from those of a record that has none: what is added to them is not added to the record."""


def own_headers(headers: Headers) -> Headers:
    """The tuple that the record came with."""
    return headers.before if type(headers) is AddedHeaders and headers is not NEW_HEADERS else headers


def add_headers(record: RecordContext, headers: OpenHeaders) -> None:
    """Keep with a record what a serializer made of its headers."""
    changed = tuple(headers)
    if changed != record.headers:
        record.headers = AddedHeaders.of(record.headers, headers)


def with_record_headers(half: Any, context: HasRecordContext) -> Any:
    """A serializer that is given the headers of the record being processed; one that takes none is returned as it is."""
    if not wants_headers(half):
        return half

    def serialize(topic: str, value: Any) -> Any:
        record = context.record_context
        if record is None:
            return half(topic, value, [])
        headers = list(record.headers)
        data = half(topic, value, headers)
        add_headers(record, headers)
        return data

    return serialize


def reading_record_headers(half: Any, context: HasRecordContext) -> Any:
    """A deserializer that is given the headers of the record being processed; one that takes none is returned as it is."""
    if not wants_headers(half):
        return half

    def deserialize(topic: str, data: bytes | None) -> Any:
        record = context.record_context
        return half(topic, data, () if record is None else tuple(record.headers))

    return deserialize


@contextmanager
def record_headers(context: HasRecordContext, headers: Headers) -> Iterator[RecordContext]:
    """Process with other headers for a moment; yields the record context, in which they are and to which serializers add."""
    current = context.record_context
    if current is None:
        changed = RecordContext(-1, -1, -1, None, headers)
    else:
        changed = RecordContext(
            current.timestamp,
            current.offset,
            current.partition,
            current.topic,
            headers,
            current.source_raw_key,
            current.source_raw_value,
        )
    context.set_record_context(changed)
    try:
        yield changed
    finally:
        context.set_record_context(current)
