"""What a time-ordered buffer holds for a key, and its bytes in the changelog; equal to Java's, so either can restore the other's.

    record context   int64 timestamp, int64 offset, sized topic, int32 partition, int32 header count, sized key and value of each
    buffer value     record context, sized prior value, sized old value, sized new value

Sized means an int32 length before the bytes; -1 stands for None, and -2 for an old value equal to the prior one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.errors import SerializationError
from penstock.record import Headers, RecordContext

_NONE_LENGTH = -1
_SAME_AS_PRIOR = -2

_INT = struct.Struct(">i")
_TWO_LONGS = struct.Struct(">qq")
_NONE_BYTES = _INT.pack(_NONE_LENGTH)
_SAME_AS_PRIOR_BYTES = _INT.pack(_SAME_AS_PRIOR)


class BufferKey(NamedTuple):
    """The order of a buffer: by time, then by the bytes of the key."""

    time: int
    key: bytes


class BufferValue:
    """The buffered change of one key: the value seen before buffering began, the last change, and where that came from."""

    __slots__ = ("context", "new_value", "old_value", "prior_value")

    def __init__(
        self, prior_value: bytes | None, old_value: bytes | None, new_value: bytes | None, context: RecordContext
    ) -> None:
        # One object for two equal values: it is counted once in the size of the buffer.
        self.prior_value = old_value if prior_value == old_value else prior_value
        self.old_value = old_value
        self.new_value = new_value
        self.context = context

    def __repr__(self) -> str:
        return f"BufferValue({self.prior_value!r}, {self.old_value!r}, {self.new_value!r}, {self.context!r})"

    def serialize(self) -> bytes:
        """The bytes for the changelog, without the buffer time behind them."""
        old, prior = self.old_value, self.prior_value
        old_bytes = _SAME_AS_PRIOR_BYTES if old is not None and old == prior else _sized(old)
        return b"".join((serialize_context(self.context), _sized(prior), old_bytes, _sized(self.new_value)))

    def resident_memory_size_estimate(self) -> int:
        """How many bytes this counts for against `max_bytes`."""
        size = context_size_estimate(self.context)
        if self.prior_value is not None:
            size += len(self.prior_value)
        if self.old_value is not None and self.old_value is not self.prior_value:
            size += len(self.old_value)
        if self.new_value is not None:
            size += len(self.new_value)
        return size


class Reader:
    """Reads the pieces of a changelog value one after the other."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def int64(self) -> int:
        """The next eight bytes as a number."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def int32(self) -> int:
        """The next four bytes as a number."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def take(self, length: int) -> bytes:
        """The next bytes."""
        end = self.position + length
        if length < 0 or end > len(self._data):
            raise SerializationError(
                f"a buffer's changelog value ends too early: {length} bytes wanted at {self.position} of {len(self._data)}"
            )
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def nullable(self, length: int) -> bytes | None:
        """The next bytes, or None where the length says so."""
        return None if length == _NONE_LENGTH else self.take(length)

    def sized(self) -> bytes | None:
        """The next value with its length before it."""
        return self.nullable(self.int32())

    def context(self) -> RecordContext:
        """The next record context."""
        timestamp, offset = self.int64(), self.int64()
        topic = self.sized()
        if topic is None:
            raise SerializationError("a buffer's changelog value has no topic in its record context")
        partition = self.int32()
        # -1 headers were written by old versions for "no headers".
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(max(0, self.int32())):
            key = self.sized()
            if key is None:
                raise SerializationError("a buffer's changelog value has a header without a key")
            headers.append((key.decode(errors="replace"), self.sized()))
        return RecordContext(timestamp, offset, partition, topic.decode(errors="replace"), tuple(headers))

    def buffer_value(self) -> BufferValue:
        """The next buffer value."""
        context = self.context()
        prior = self.sized()
        old_length = self.int32()
        old = prior if old_length == _SAME_AS_PRIOR else self.nullable(old_length)
        return BufferValue(prior, old, self.sized(), context)


def serialize_context(context: RecordContext) -> bytes:
    """The bytes of a record context; the raw key and value are not kept."""
    # A record forwarded by a punctuator comes from no topic: it is written with an empty one.
    topic = (context.topic or "").encode()
    parts = [
        _TWO_LONGS.pack(context.timestamp, context.offset),
        _INT.pack(len(topic)),
        topic,
        _INT.pack(context.partition),
        _INT.pack(len(context.headers)),
    ]
    for key, value in context.headers:
        parts.append(_sized(key.encode()))
        parts.append(_sized(value))
    return b"".join(parts)


def context_size_estimate(context: RecordContext) -> int:
    """What Java's estimate counts for a record context: numbers, characters of the topic and the headers."""
    size = 20
    if context.topic is not None:
        size += _utf16_length(context.topic)
    return size + headers_size_estimate(context.headers)


def headers_size_estimate(headers: Headers) -> int:
    """Characters of the keys and bytes of the values."""
    size = 0
    for key, value in headers:
        size += _utf16_length(key)
        if value is not None:
            size += len(value)
    return size


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _sized(value: bytes | None) -> bytes:
    return _NONE_BYTES if value is None else _INT.pack(len(value)) + value
