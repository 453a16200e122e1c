"""The builder behind `Topology` and the DSL: checks what is added, and turns it into sub-topologies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.errors import TopologyError
from penstock.history import SourceHistory
from penstock.state.store import StoreBuilder
from penstock.topology import assembly, checks
from penstock.topology.description import TopologyDescription, describe
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.topology.offset_reset import AutoOffsetReset, as_offset_reset
from penstock.topology.registry import MatchedTopics, TopicNames, TopologyRegistry
from penstock.topology.specs import (
    Deserializer,
    GlobalTopology,
    ProcessorSpec,
    ProcessorSupplier,
    Serializer,
    SinkSpec,
    SourceSpec,
    StreamPartitioner,
    Subtopology,
    TimestampExtractor,
    TopicNameExtractor,
)
from penstock.topology.supplied_stores import stores_of
from penstock.topology.validation import validate_fixed_partitions
from penstock.topology.wrapping import configured_wrapper, wrap_supplier
from penstock.user_code import added_at

TOPIC_PREFIX_OVERRIDE = "__internal.override.topic.prefix__"


class InternalTopologyBuilder:
    """Nodes and stores in the order they are added: parents before children, processors before their stores.

    Everything that is wrong is refused with a TopologyError before anything changes. Topic names are kept as they
    were given; internal ones get the application id when sub-topologies are built. The builder pickles.
    """

    def __init__(self, topology_configs: Mapping[str, Any] | None = None) -> None:
        self.registry = TopologyRegistry()
        self.topology_configs = topology_configs
        self.application_id: str | None = None
        self._wrapper = configured_wrapper(topology_configs)

    @contextmanager
    def adding(self, line: str) -> Iterator[None]:
        """Add nodes for a line of the user's code that was run before; errors name it."""
        self.registry.line = line
        try:
            yield
        except TopologyError as exc:
            raise TopologyError(f"{str(exc).rstrip('.')}{added_at(line)}.") from exc
        finally:
            self.registry.line = None

    # -- adding nodes

    def add_source(
        self,
        offset_reset: Any,
        name: str,
        timestamp_extractor: TimestampExtractor | None,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        *topics: str | re.Pattern[str],
    ) -> None:
        """Add a source of topics given by name, or by one pattern."""
        if len(topics) == 1 and isinstance(topics[0], re.Pattern):
            self.add_source_pattern(offset_reset, name, timestamp_extractor, key_deserializer, value_deserializer, topics[0])
            return
        registry = self.registry
        checks.verify_new_node(registry, name)
        checks.verify_new_topics(registry, name, topics)
        reset = as_offset_reset(offset_reset)
        registry.add_node(
            SourceSpec(
                name,
                tuple(str(topic) for topic in topics),
                None,
                key_deserializer,
                value_deserializer,
                timestamp_extractor,
                reset,
            )
        )
        registry.source_topics.update(str(topic) for topic in topics)

    def add_history(self, history: SourceHistory | None) -> None:
        """Have a source read a table before its topic."""
        if history is not None:
            self.registry.histories[history.topic] = history

    @property
    def histories(self) -> Mapping[str, SourceHistory]:
        """The history of each source topic that has one."""
        return self.registry.histories

    def add_source_pattern(
        self,
        offset_reset: Any,
        name: str,
        timestamp_extractor: TimestampExtractor | None,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        topic_pattern: re.Pattern[str],
    ) -> None:
        """Add a source of all topics whose whole name matches a pattern."""
        checks.verify_new_node(self.registry, name)
        checks.verify_new_pattern(self.registry, topic_pattern)
        reset = as_offset_reset(offset_reset)
        self.registry.add_node(
            SourceSpec(name, (), topic_pattern, key_deserializer, value_deserializer, timestamp_extractor, reset)
        )

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        partitioner: StreamPartitioner | None,
        *parents: str,
    ) -> None:
        """Add a sink to a topic, or to the one that a function names for each record."""
        checks.verify_new_node(self.registry, name)
        extractor = topic if not isinstance(topic, str) and callable(topic) else None
        fixed_topic = checks.require_text(topic, f"The topic of sink {name}") if extractor is None else None
        checks.verify_parents(self.registry, name, parents)
        self.registry.add_node(
            SinkSpec(name, parents, fixed_topic, extractor, key_serializer, value_serializer, partitioner), *parents
        )

    def add_processor(
        self, name: str, supplier: ProcessorSupplier, *parents: str, stores: Sequence[StoreBuilder[Any]] = ()
    ) -> None:
        """Add a processor, then the given stores and those of its supplier, connected to it.

        A configured `processor.wrapper.class` gets the supplier with all of them as its `stores`, and may exchange them.
        """
        checks.verify_new_node(self.registry, name)
        checks.verify_supplier(supplier, name)
        checks.verify_parents(self.registry, name, parents)
        connected = [*stores, *stores_of(supplier)]
        if self._wrapper is not None:
            if stores:
                supplier.stores = connected  # type: ignore[attr-defined]
            wrapped = wrap_supplier(self._wrapper, name, supplier)
            connected = stores_of(wrapped, supplier)
            supplier = wrapped
        self.registry.add_node(ProcessorSpec(name, supplier, parents), *parents)
        for store in connected:
            self.add_state_store(store, name)

    # -- adding and connecting stores

    def add_state_store(self, store_builder: StoreBuilder[Any], *processor_names: str, allow_override: bool = False) -> None:
        """Add a store, connected to processors that have been added before."""
        registry = self.registry
        checks.verify_new_store(registry, store_builder, allow_override=allow_override)
        for processor_name in processor_names:
            checks.verify_store_user(registry, processor_name)
        registry.stores[store_builder.name] = store_builder
        for processor_name in processor_names:
            registry.connect(processor_name, store_builder.name)

    def add_global_store(
        self,
        store_builder: StoreBuilder[Any],
        source_name: str,
        timestamp_extractor: TimestampExtractor | None,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        topic: str,
        processor_name: str,
        state_update_supplier: ProcessorSupplier,
        reprocess_on_restore: bool = True,
    ) -> None:
        """Add a store that every instance keeps whole, with the source and the processor that fill it."""
        registry = self.registry
        checks.verify_new_node(registry, source_name)
        checks.verify_new_topic(registry, topic)
        checks.verify_new_node(registry, processor_name)
        if source_name == processor_name:
            raise TopologyError(f"sourceName and processorName must be different, but both are {source_name}.")
        checks.verify_supplier(state_update_supplier, processor_name)
        checks.verify_new_global_store(registry, store_builder)
        store_name = store_builder.name
        self._verify_no_changelog_source(store_name)
        registry.add_node(SourceSpec(source_name, (topic,), None, key_deserializer, value_deserializer, timestamp_extractor))
        registry.add_node(ProcessorSpec(processor_name, state_update_supplier, (source_name,)), source_name)
        registry.processor_stores[processor_name] = {store_name: None}
        registry.global_nodes.update((source_name, processor_name))
        registry.global_topics.add(topic)
        # The topic it is read from is its changelog.
        registry.global_stores[store_name] = store_builder.with_logging_disabled()
        registry.changelog_sources[store_name] = topic
        if reprocess_on_restore:
            registry.reprocess_on_restore.add(store_name)

    def add_read_only_state_store(
        self,
        store_builder: StoreBuilder[Any],
        source_name: str,
        timestamp_extractor: TimestampExtractor | None,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        topic: str,
        processor_name: str,
        state_update_supplier: ProcessorSupplier,
    ) -> None:
        """Add a local store filled from a topic, which is its changelog, by a processor of its own."""
        registry = self.registry
        checks.verify_new_node(registry, processor_name)
        checks.verify_supplier(state_update_supplier, processor_name)
        checks.verify_new_store(registry, store_builder)
        self._verify_no_changelog_source(store_builder.name)
        if source_name == processor_name:
            raise TopologyError(f"sourceName and processorName must be different, but both are {source_name}.")
        self.add_source(AutoOffsetReset.earliest(), source_name, timestamp_extractor, key_deserializer, value_deserializer, topic)
        self.add_processor(processor_name, state_update_supplier, source_name)
        self.add_state_store(store_builder, processor_name)
        store_builder.with_logging_disabled()
        self.connect_source_store_and_topic(store_builder.name, topic)

    def connect_processor_and_state_stores(self, processor_name: str, *state_store_names: str) -> None:
        """Let a processor use stores that have been added before."""
        if not state_store_names:
            raise TopologyError(f"The names of the stores to be connected to {processor_name} cannot be empty.")
        checks.verify_connection(self.registry, processor_name, state_store_names)
        for store_name in state_store_names:
            self.registry.connect(processor_name, store_name)

    def connect_source_store_and_topic(self, source_store_name: str, topic: str) -> None:
        """Use the topic from which a store is filled as its changelog."""
        self._verify_no_changelog_source(source_store_name)
        self.registry.changelog_sources[source_store_name] = topic

    def _verify_no_changelog_source(self, store_name: str) -> None:
        if store_name in self.registry.changelog_sources:
            raise TopologyError(f"Source store {store_name} is already added.")

    # -- internal topics and co-partitioning

    def add_internal_topic(self, topic_name: str, internal_topic_properties: InternalTopicProperties) -> None:
        """Make a topic one of the application's own; its name gets the application id."""
        checks.require_text(topic_name, "The name of an internal topic")
        self.registry.internal_topics[topic_name] = internal_topic_properties

    def copartition_sources(self, source_nodes: Collection[str]) -> None:
        """Demand the same number of partitions for the topics of some sources."""
        self.registry.copartition_sources.append(set(source_nodes))

    def maybe_update_copartition_source_groups(self, replaced_node_name: str, optimized_node_name: str) -> None:
        """Put one source in the place of another in all groups."""
        for group in self.registry.copartition_sources:
            if replaced_node_name in group:
                group.remove(replaced_node_name)
                group.add(optimized_node_name)

    def validate_copartition(self) -> None:
        """Refuse groups of repartition topics whose fixed numbers of partitions differ."""
        registry = self.registry
        for sources in registry.copartition_sources:
            nodes = [registry.nodes.get(source) for source in sources]
            topics = {topic for node in nodes if isinstance(node, SourceSpec) for topic in node.topics}
            unset = InternalTopicProperties()
            validate_fixed_partitions({t: registry.internal_topics.get(t, unset).number_of_partitions for t in topics})

    # -- application id and configuration

    def set_application_id(self, application_id: str) -> InternalTopologyBuilder:
        """Set the prefix of the internal topics."""
        self.application_id = checks.require_text(application_id, "The application id")
        return self

    def rewrite_topology(self, config: Mapping[str, Any]) -> InternalTopologyBuilder:
        """Take over the application's configuration: its id, and whether there is a cache at all."""
        self.set_application_id(config["application.id"])
        self.topology_configs = config
        cache_size = config.get("statestore.cache.max.bytes", config.get("cache.max.bytes.buffering"))
        for store in (*self.registry.stores.values(), *self.registry.global_stores.values()):
            if cache_size is not None and int(cache_size) == 0:
                store.with_caching_disabled()
            store.configure(config)
        return self

    def _topic_names(self, application_id: str | None, matched_topics: MatchedTopics | None) -> TopicNames:
        owner = application_id or self.application_id
        if owner is None:
            raise TopologyError("The topology has no application id yet: call set_application_id first.")
        prefix = (self.topology_configs or {}).get(TOPIC_PREFIX_OVERRIDE) or owner
        return TopicNames.of(self.registry, prefix, matched_topics)

    # -- results

    def subtopologies(self, application_id: str | None = None, matched_topics: MatchedTopics | None = None) -> list[Subtopology]:
        """The sub-topologies that get tasks, numbered as Kafka Streams numbers them.

        `matched_topics` maps the patterns of sources to existing topics, see `match_topics`.
        """
        return assembly.build_subtopologies(self.registry, self._topic_names(application_id, matched_topics))

    def build_topology(self, application_id: str | None = None, matched_topics: MatchedTopics | None = None) -> Subtopology:
        """Everything but the global stores as one plan."""
        return assembly.build_whole(self.registry, self._topic_names(application_id, matched_topics))

    def global_topology(self, application_id: str | None = None) -> GlobalTopology | None:
        """The plan of the global stores; None where there are none."""
        return assembly.build_global_topology(self.registry, self._topic_names(application_id, None))

    def describe(self) -> TopologyDescription:
        """The description of what has been added so far."""
        return describe(self.registry)

    # -- questions

    def match_topics(self, topics: Iterable[str]) -> dict[re.Pattern[str], tuple[str, ...]]:
        """The existing topics that each source pattern matches; TopologyError where two match the same topic."""
        return self.registry.match_topics(topics)

    def node_groups(self) -> dict[int, tuple[str, ...]]:
        """The nodes of each sub-topology by its number, those of global stores included."""
        return self.registry.node_groups()

    def offset_reset_strategy(self, topic: str, application_id: str | None = None) -> AutoOffsetReset | None:
        """The offset reset of the source that reads a topic; None leaves it to the consumer's configuration."""
        names = self._topic_names(application_id, None)
        for source in self.registry.sources():
            if topic in names.of_source(source) or (source.pattern is not None and source.pattern.fullmatch(topic)):
                reset: AutoOffsetReset | None = source.offset_reset
                return reset
        raise TopologyError(f"Topic {topic} is not read by any source of the topology.")

    @property
    def source_patterns(self) -> list[re.Pattern[str]]:
        """The patterns of all sources that have one."""
        return [source.pattern for source in self.registry.sources() if source.pattern is not None]

    @property
    def has_persistent_stores(self) -> bool:
        """Whether some store that is used survives on disk."""
        registry = self.registry
        used = [store for name, store in registry.stores.items() if registry.store_users.get(name)]
        return any(store.build().persistent for store in (*used, *registry.global_stores.values()))

    @property
    def state_stores(self) -> Mapping[str, StoreBuilder[Any]]:
        """The builders of all local stores."""
        return self.registry.stores

    def is_store_versioned(self, store_name: str) -> bool:
        """Whether a local store keeps versions."""
        return self.registry.stores[store_name].history_retention is not None

    def history_retention(self, store_name: str) -> int:
        """How long a versioned store keeps old versions."""
        retention = self.registry.stores[store_name].history_retention
        if retention is None:
            raise TopologyError(f"Store {store_name} is not versioned, so it has no history retention.")
        return retention
