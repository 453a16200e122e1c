"""The user data in what Kafka's consumer protocol carries, taken out with care: the bytes may be anybody's.

kafka-python's own decoding raises one of many exceptions for bytes that are none, in the middle of the leader's work.
"""

from __future__ import annotations

import struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscription_user_data(raw: bytes) -> bytes:
    """What a member has to tell: after the version come topics, then user data. ValueError where that is not so."""
    reader = _Reader(raw)
    reader.version()
    for _ in range(reader.count()):
        reader.skip_text()
    return reader.data()


def assignment_user_data(raw: bytes) -> bytes:
    """What a member is given: after the version come topics with partitions, then user data. ValueError where that is not so."""
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
        """How many things follow; each has at least two bytes, so there are no more than bytes."""
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
