"""Headers for the serdes of stores: those of the current record.

A store's serializer may add headers. As in Kafka Streams they stay with the record while its node runs: later serdes see
them, a cache stores them with the entry, and the node forwards them with the record's own headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from penstock.record import Headers, RecordContext
from penstock.serdes.contract import OpenHeaders, wants_headers


class HasRecordContext(Protocol):
    """A context with the current record."""

    @property
    def record_context(self) -> RecordContext | None: ...  # noqa: D102

    def set_record_context(self, context: RecordContext | None) -> None: ...  # noqa: D102


class AddedHeaders(tuple[tuple[str, "bytes | None"], ...]):
    """The headers of a record with those that serializers have added. `before` is the record's original tuple."""

    before: Headers

    @classmethod
    def of(cls, before: Headers, headers: OpenHeaders) -> AddedHeaders:
        """Return the changed headers of a record."""
        added = cls(headers)
        added.before = own_headers(before)
        return added


NEW_HEADERS: Headers = AddedHeaders()
"""No headers, distinct from an empty tuple of a record: headers added to it are not added to the record."""


def own_headers(headers: Headers) -> Headers:
    """Return the record's original headers."""
    return headers.before if type(headers) is AddedHeaders and headers is not NEW_HEADERS else headers


def add_headers(record: RecordContext, headers: OpenHeaders) -> None:
    """Store a serializer's changes of the headers with the record."""
    changed = tuple(headers)
    if changed != record.headers:
        record.headers = AddedHeaders.of(record.headers, headers)


def with_record_headers(half: Any, context: HasRecordContext) -> Any:
    """Adapt a serializer to get the current record's headers. One that takes none is returned unchanged."""
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
    """Adapt a deserializer to get the current record's headers. One that takes none is returned unchanged."""
    if not wants_headers(half):
        return half

    def deserialize(topic: str, data: bytes | None) -> Any:
        record = context.record_context
        return half(topic, data, () if record is None else tuple(record.headers))

    return deserialize


@contextmanager
def record_headers(context: HasRecordContext, headers: Headers) -> Iterator[RecordContext]:
    """Set other headers temporarily. Yields the record context, to which serializers may add headers."""
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
