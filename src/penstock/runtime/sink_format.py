"""What a sink tells whoever takes its records."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.topology.specs import Serializer, StreamPartitioner


class SinkFormat(NamedTuple):
    """How the records of a sink become bytes, where they go, and who is asked where they do not serialize."""

    key_serializer: Serializer
    value_serializer: Serializer
    node: str
    context: Any
    partitioner: StreamPartitioner | None = None
