"""Topic names that serdes see although no record is ever in such a topic."""

from __future__ import annotations

from typing import Any

from penstock.topology.builder import TOPIC_PREFIX_OVERRIDE, InternalTopologyBuilder


class PseudoTopic:
    """The name of a topic under the application's id, which is known only once the application starts.

    Pickled for a worker it becomes the name itself, so that the topology does not travel with it.
    """

    def __init__(self, topology: InternalTopologyBuilder, topic: str) -> None:
        self._topology = topology
        self._topic = topic

    def __call__(self) -> str:
        """The name as it is known now."""
        configured = (self._topology.topology_configs or {}).get(TOPIC_PREFIX_OVERRIDE)
        prefix = configured or self._topology.application_id
        return self._topic if prefix is None else f"{prefix}-{self._topic}"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._topology.application_id is None:
            return PseudoTopic, (self._topology, self._topic)
        return str, (self(),)
