"""Nodes that send records through a repartition topic: a filter, a sink, and a source on the other side."""

from __future__ import annotations

import re
from typing import Any

from penstock.change import ChangedSerde
from penstock.graph.naming import REPARTITION_TOPIC_SUFFIX, STREAM_FILTER, STREAM_SINK, STREAM_SOURCE
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.resources import GraphNames
from penstock.operators import KStreamFilter
from penstock.operators.functions import has_key, keep_all
from penstock.serdes.serde import as_deserializer, as_serializer
from penstock.timestamps import FailOnInvalidTimestamp
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.specs import StreamPartitioner

_GENERATED_PREFIX = re.compile(r"KSTREAM.*-[0-9]{10}\Z")


class BaseRepartitionNode(GraphNode):
    """A repartition topic between two parts of the graph; named after its source."""

    def __init__(
        self,
        source_name: str,
        sink_name: str,
        topic: str,
        key_serde: Any,
        value_serde: Any,
        filter_parameters: ProcessorParameters | None = None,
        partitioner: StreamPartitioner | None = None,
        topic_properties: InternalTopicProperties | None = None,
    ) -> None:
        super().__init__(source_name)
        self.source_name = source_name
        self.sink_name = sink_name
        self.topic = topic
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.filter_parameters = filter_parameters
        self.partitioner = partitioner
        self.topic_properties = topic_properties or InternalTopicProperties()

    def drop_null_keys(self) -> None:
        """Where no join below wants records without a key, do not send them."""
        if self.filter_parameters is not None:
            self.filter_parameters = ProcessorParameters(KStreamFilter(has_key, False), self.filter_parameters.name)

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add topic, filter, sink and source."""
        topology.add_internal_topic(self.topic, self.topic_properties)
        sink_parents = self.parent_node_names
        if self.filter_parameters is not None:
            self.filter_parameters.add_processor_to(topology, *sink_parents)
            sink_parents = [self.filter_parameters.name]
        serializers = as_serializer(self.key_serde), as_serializer(self.value_serde)
        topology.add_sink(self.sink_name, self.topic, *serializers, self.partitioner, *sink_parents)
        deserializers = as_deserializer(self.key_serde), as_deserializer(self.value_serde)
        topology.add_source(None, self.source_name, FailOnInvalidTimestamp(), *deserializers, self.topic)


class OptimizableRepartitionNode(BaseRepartitionNode):
    """A repartition the DSL put in by itself; several below one key change may be merged."""


class UnoptimizableRepartitionNode(BaseRepartitionNode):
    """A repartition the user asked for with `repartition()`; it stays where it is."""


class GroupedTableRepartitionNode(BaseRepartitionNode):
    """The repartition of a grouped table: old and new value travel together, without a filter."""

    def __init__(self, source_name: str, sink_name: str, topic: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(source_name, sink_name, topic, key_serde, ChangedSerde(value_serde))


def create_repartition_node(
    node_class: type[BaseRepartitionNode],
    names: GraphNames,
    key_serde: Any,
    value_serde: Any,
    topic_prefix: str,
    name_given_by_user: bool,
    partitioner: StreamPartitioner | None = None,
    topic_properties: InternalTopicProperties | None = None,
    topic: str | None = None,
) -> BaseRepartitionNode:
    """A node for the repartition topic `topic_prefix`-repartition; uses up three indices, also where they are not needed."""
    suffixed = topic_prefix.endswith(REPARTITION_TOPIC_SUFFIX)
    topic_name = topic_prefix if suffixed else topic_prefix + REPARTITION_TOPIC_SUFFIX
    if not name_given_by_user:
        names.note_implicit(repartition_topic=topic_name)
    sink_name = names.new_processor_name(STREAM_SINK)
    filter_name = names.new_processor_name(STREAM_FILTER)
    source_name = names.new_processor_name(STREAM_SOURCE)
    if not _GENERATED_PREFIX.match(topic_prefix):
        sink_name, filter_name, source_name = f"{topic_name}-sink", f"{topic_name}-filter", f"{topic_name}-source"
    return node_class(
        source_name,
        sink_name,
        topic or topic_name,
        key_serde,
        value_serde,
        ProcessorParameters(KStreamFilter(keep_all, False), filter_name),
        partitioner,
        topic_properties,
    )
