"""The node that writes a stream to a topic."""

from __future__ import annotations

from typing import Any

from penstock.graph.node import GraphNode
from penstock.serdes.serde import as_serializer
from penstock.serdes.windowed import WindowedStreamPartitioner, is_windowed_serializer
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.specs import StreamPartitioner, TopicNameExtractor


class StreamSinkNode(GraphNode):
    """Writes to a topic, or to the one a function names for each record."""

    def __init__(
        self,
        node_name: str,
        topic: str | TopicNameExtractor,
        key_serde: Any,
        value_serde: Any,
        partitioner: StreamPartitioner | None = None,
    ) -> None:
        super().__init__(node_name)
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the sink; a windowed key goes to the partition of the key inside it."""
        key_serializer, value_serializer = as_serializer(self.key_serde), as_serializer(self.value_serde)
        partitioner = self.partitioner
        if partitioner is None and is_windowed_serializer(key_serializer):
            partitioner = WindowedStreamPartitioner(key_serializer)
        topology.add_sink(self.node_name, self.topic, key_serializer, value_serializer, partitioner, *self.parent_node_names)
