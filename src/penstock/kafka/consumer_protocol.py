"""Extract the user data from Kafka's consumer protocol. The bytes are not trusted.

kafka-python's decoder raises many kinds of exceptions for malformed bytes.
"""

from __future__ import annotations

import struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscription_user_data(raw: bytes) -> bytes:
    """Return a member's user data, which follows version and topics. Raises ValueError for malformed bytes."""
    reader = _Reader(raw)
    reader.version()
    for _ in range(reader.count()):
        reader.skip_text()
    return reader.data()


def assignment_user_data(raw: bytes) -> bytes:
    """Return an assignment's user data, which follows version, topics and partitions. Raises ValueError for malformed bytes."""
    reader = _Reader(raw)
    reader.version()
    for _ in range(reader.count()):
        reader.skip_text()
        reader.skip(4 * reader.count())
    return reader.data()


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def version(self) -> int:
        return self._number(_INT16)

    def count(self) -> int:
        """Read a number of entries. Each has at least two bytes, so the number is bounded by the size."""
        found = self._number(_INT32)
        if not 0 <= found <= len(self._raw):
            raise ValueError(f"{found} is not a number of entries in {len(self._raw)} bytes")
        return found

    def skip_text(self) -> None:
        self.skip(self._number(_INT16))

    def data(self) -> bytes:
        size = self._number(_INT32)
        if size == -1:
            return b""
        start = self._at
        self.skip(size)
        return self._raw[start : self._at]

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._raw) - self._at:
            raise ValueError(f"{size} bytes at {self._at} are not in {len(self._raw)} bytes")
        self._at += size

    def _number(self, kind: struct.Struct) -> int:
        start = self._at
        self.skip(kind.size)
        return int(kind.unpack_from(self._raw, start)[0])
