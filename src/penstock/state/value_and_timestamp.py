"""How a value with its timestamp lies in a timestamped store: eight bytes of timestamp, big-endian, then the value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import add
from typing import Any

TIMESTAMP_SIZE = 8
_stamp = struct.Struct(">q").pack

Row = tuple[Any, int]
"""A value and its timestamp, where many are handled at once."""


def timestamped_column(raw_values: Sequence[bytes | None], timestamps: Sequence[int]) -> list[bytes | None]:
    """Return timestamp and value of many entries as one; None stays None.

    >>> [one and one.hex() for one in timestamped_column([b"v", None], [50, 51])]
    ['000000000000003276', None]
    """
    stamps = map(_stamp, timestamps)
    if None in raw_values:
        return [None if raw is None else stamp + raw for stamp, raw in zip(stamps, raw_values)]
    return list(map(add, stamps, raw_values))
