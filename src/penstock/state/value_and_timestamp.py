"""How a value with its timestamp lies in a timestamped store: eight bytes of timestamp, big-endian, then the value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import add
from typing import Any

TIMESTAMP_SIZE = 8
_stamp = struct.Struct(">q").pack
UNKNOWN_TIMESTAMP = b"\xff" * TIMESTAMP_SIZE

Row = tuple[Any, int]
"""A value and its timestamp, where many are handled at once."""


def timestamped_bytes(raw_value: bytes | None, timestamp: int) -> bytes | None:
    """Timestamp and value as one; None stays None.

    >>> timestamped_bytes(b"v", 50).hex()
    '000000000000003276'
    """
    return None if raw_value is None else timestamp.to_bytes(TIMESTAMP_SIZE, "big", signed=True) + raw_value


def timestamped_column(raw_values: Sequence[bytes | None], timestamps: Sequence[int]) -> list[bytes | None]:
    """The same for many.

    >>> [one and one.hex() for one in timestamped_column([b"v", None], [50, 51])]
    ['000000000000003276', None]
    """
    stamps = map(_stamp, timestamps)
    if None in raw_values:
        return [None if raw is None else stamp + raw for stamp, raw in zip(stamps, raw_values)]
    return list(map(add, stamps, raw_values))


def raw_value(raw_value_and_timestamp: bytes | None) -> bytes | None:
    """The value alone."""
    return None if raw_value_and_timestamp is None else raw_value_and_timestamp[TIMESTAMP_SIZE:]


def timestamp(raw_value_and_timestamp: bytes) -> int:
    """The timestamp alone."""
    return int.from_bytes(raw_value_and_timestamp[:TIMESTAMP_SIZE], "big", signed=True)
