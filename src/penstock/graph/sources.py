"""Nodes at the top of the graph: topics read as a stream or as a table, and stores without a parent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.history import SourceHistory, SparkHistory, history_of
from penstock.serdes.serde import as_deserializer
from penstock.state.store import StoreBuilder
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.specs import Deserializer, ProcessorSupplier, TimestampExtractor


@dataclass(frozen=True)
class SourceOptions:
    """How a topic is read."""

    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: Any = None
    history: SparkHistory | None = None

    def history_of(self, topics: tuple[str, ...] | re.Pattern[str]) -> SourceHistory | None:
        """The history of a source of these topics."""
        return history_of(topics, self.history, self.key_serde, self.value_serde)

    def refuse_history(self, topic: str) -> None:
        """Raise TopologyError if a global table or store has history: each instance reads all of its topic."""
        if self.history is not None:
            raise TopologyError(
                f"The global table or store of {topic} cannot have a history: read the topic with table() instead."
            )

    @property
    def key_deserializer(self) -> Deserializer | None:
        """The key's deserializer; None leaves it to the configured default."""
        return as_deserializer(self.key_serde)

    @property
    def value_deserializer(self) -> Deserializer | None:
        """The value's deserializer; None leaves it to the configured default."""
        return as_deserializer(self.value_serde)


class StreamSourceNode(GraphNode):
    """Topics, or all topics that match a pattern, read as a stream."""

    def __init__(self, node_name: str, topics: Iterable[str] | re.Pattern[str], options: SourceOptions) -> None:
        super().__init__(node_name)
        self.pattern = topics if isinstance(topics, re.Pattern) else None
        self.topics = () if isinstance(topics, re.Pattern) else tuple(dict.fromkeys(topics))
        self.options = options
        options.history_of(topics if isinstance(topics, re.Pattern) else self.topics)

    def merge(self, other: StreamSourceNode) -> None:
        """Take over the children of a second source of the same topics."""
        if self.options.offset_reset != other.options.offset_reset:
            raise TopologyError(
                f"the sources {self.node_name} and {other.node_name} read the same topics with different offset resets "
                f"({self.options.offset_reset} and {other.options.offset_reset}): give both the same"
            )
        mine, others = self.options.history, other.options.history
        if mine is not None and others is not None and mine != others:
            raise TopologyError(
                f"the sources {self.node_name} and {other.node_name} read the same topics with different histories: "
                "give both the same"
            )
        self.options = replace(self.options, history=mine or others)
        for child in other.children:
            other.remove_child(child)
            self.add_child(child)

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the source."""
        read = self.options
        topics = self.topics if self.pattern is None else (self.pattern,)
        topology.add_source(
            read.offset_reset, self.node_name, read.timestamp_extractor, read.key_deserializer, read.value_deserializer, *topics
        )
        topology.add_history(read.history_of(self.topics if self.pattern is None else self.pattern))


class TableSourceNode(GraphNode):
    """A topic read as a table, or as a global table."""

    def __init__(
        self,
        node_name: str,
        source_name: str,
        topic: str,
        options: SourceOptions,
        parameters: ProcessorParameters,
        is_global: bool = False,
    ) -> None:
        super().__init__(node_name)
        self.source_name = source_name
        self.topic = topic
        self.options = options
        self.parameters = parameters
        self.is_global = is_global
        if is_global:
            options.refuse_history(topic)
        self.reuse_source_topic_for_changelog = False

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the source and the processor that keeps the table."""
        read = self.options
        if self.is_global:
            (store,) = self.parameters.own_stores
            topology.add_global_store(
                store,
                self.source_name,
                read.timestamp_extractor,
                read.key_deserializer,
                read.value_deserializer,
                self.topic,
                self.parameters.name,
                self.parameters.supplier,
                False,
            )
            return
        topology.add_source(
            read.offset_reset,
            self.source_name,
            read.timestamp_extractor,
            read.key_deserializer,
            read.value_deserializer,
            self.topic,
        )
        topology.add_history(read.history_of((self.topic,)))
        self.parameters.add_processor_to(topology, self.source_name)
        if self.reuse_source_topic_for_changelog and read.history is None:  # the topic does not have what comes from history
            for store in self.parameters.own_stores:
                store.with_logging_disabled()
                topology.connect_source_store_and_topic(store.name, self.topic)


class StateStoreNode(GraphNode):
    """A store the user added, to be connected by name."""

    def __init__(self, store: StoreBuilder[Any]) -> None:
        super().__init__(store.name)
        self.store = store

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add the store, connected to nothing yet."""
        topology.add_state_store(self.store)


class GlobalStoreNode(GraphNode):
    """A global store kept by the user's own processor."""

    def __init__(
        self,
        store: StoreBuilder[Any],
        source_name: str,
        topic: str,
        options: SourceOptions,
        processor_name: str,
        supplier: ProcessorSupplier | Callable[[], Any],
    ) -> None:
        super().__init__(store.name)
        self.store = store
        self.source_name = source_name
        self.topic = topic
        self.options = options
        options.refuse_history(topic)
        self.processor_name = processor_name
        self.supplier = supplier

    def write_to_topology(self, topology: InternalTopologyBuilder) -> None:
        """Add source, processor and store; on restore records go through the processor again."""
        read = self.options
        topology.add_global_store(
            self.store.with_logging_disabled(),
            self.source_name,
            read.timestamp_extractor,
            read.key_deserializer,
            read.value_deserializer,
            self.topic,
            self.processor_name,
            self.supplier,
            True,
        )
