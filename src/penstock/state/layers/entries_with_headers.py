"""Entries of stores that keep headers, where a serde takes headers.

Key and value are written with the headers that the value is put with. What the serializers add is kept with the value, so that
the deserializers find it. A deletion is written with a copy of the headers of the record being processed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from penstock.record import Headers, RecordContext
from penstock.serdes.record_headers import HasRecordContext, own_headers, record_headers
from penstock.state.layers.serdes import StoreSerdes


class RawEntry(NamedTuple):
    """Key and value as bytes, and the headers that the serializers have left."""

    key: bytes
    value: bytes | None
    headers: Headers


class EntriesWithHeaders:
    """Writes and reads the entries of one store."""

    __slots__ = ("_context", "_serdes")

    def __init__(self, context: HasRecordContext, serdes: StoreSerdes) -> None:
        self._context = context
        self._serdes = serdes

    def write(self, key: Any, value: Any, headers: Headers | None) -> RawEntry:
        """The bytes of an entry; `headers` None are no headers.

        A value that is put with the headers of the record being processed shares them: the record carries what is added.
        """
        record = self._context.record_context
        shared = record is not None and headers is not None and headers is own_headers(record.headers)
        given = record.headers if record is not None and shared else headers or ()
        with record_headers(self._context, given) as changed:
            raw = RawEntry(
                self._serdes.raw_key(key), None if value is None else self._serdes.raw_value(value), tuple(changed.headers)
            )
        if record is not None and shared:
            record.headers = changed.headers
        return raw

    def deleting(self) -> AbstractContextManager[RecordContext]:
        """A deletion: what the key's serializer adds reaches the changelog, and not the record being processed."""
        record = self._context.record_context
        return record_headers(self._context, () if record is None else record.headers)

    def value(self, raw: bytes, headers: Headers) -> Any:
        """A value from its bytes and the headers it is kept with."""
        with record_headers(self._context, headers):
            return self._serdes.value_from(raw)

    def key(self, raw: bytes, headers: Headers) -> Any:
        """A key from its bytes and the headers that its value is kept with."""
        with record_headers(self._context, headers):
            return self._serdes.key_from(raw)
