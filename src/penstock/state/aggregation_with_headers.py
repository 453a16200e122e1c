"""The aggregate of a session store that keeps headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.record import Headers

V = TypeVar("V")


@dataclass(frozen=True)
class AggregationWithHeaders(Generic[V]):
    """The aggregate of a session with the headers of the record that last changed it."""

    aggregation: V
    headers: Headers = ()
