"""How an aggregate with headers lies in a session store that keeps them: size of the headers, headers, aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.record import Headers
from penstock.state.value_timestamp_headers import NO_HEADERS, split_headers

V = TypeVar("V")


@dataclass(frozen=True)
class AggregationWithHeaders(Generic[V]):
    """The aggregate of a session with the headers of the record that last changed it."""

    aggregation: V
    headers: Headers = ()


def plain_aggregation(raw: bytes | None) -> bytes | None:
    """The aggregate alone.

    >>> plain_aggregation(from_plain_aggregation(b"v"))
    b'v'
    """
    return None if raw is None else split_headers(raw)[1]


def from_plain_aggregation(raw: bytes) -> bytes:
    """An aggregate of a plain store, with no headers."""
    return NO_HEADERS + raw
