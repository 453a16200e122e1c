"""`StreamsBuilder`: where an application starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.dsl.arguments import option
from penstock.dsl.global_ktable import GlobalKTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable, source_parameters
from penstock.dsl.options import Consumed, Materialized, as_materialized
from penstock.dsl.typevars import K, V
from penstock.errors import TopologyError
from penstock.graph import naming
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.sources import GlobalStoreNode, SourceOptions, StateStoreNode, StreamSourceNode, TableSourceNode
from penstock.java_names import JavaNames
from penstock.operators import KTableMaterializedValueGetterSupplier, KTableSource
from penstock.state.store import StoreBuilder
from penstock.timestamps import resolve_timestamp_extractor
from penstock.topology.offset_reset import as_offset_reset
from penstock.topology.topology import Topology
from penstock.user_code import misuse


class StreamsBuilder(JavaNames):
    """Turns topics into streams and tables, and what is done with them into a topology.

    >>> from penstock import Consumed, Grouped, Produced, Serdes, StreamsBuilder, TopologyTestDriver
    >>> builder, text, long = StreamsBuilder(), Serdes.string(), Serdes.long()
    >>> words = builder.stream("lines", Consumed(text, text)).flat_map_values(str.split)
    >>> counts = words.group_by(lambda key, word: word, Grouped(key_serde=text, value_serde=text)).count()
    >>> counts.to_stream().to("counts", Produced(text, long))
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.create_input_topic("lines", text, text).pipe_input("line 1", "to be or not to be")
    ...     driver.create_output_topic("counts", text, long).read_key_values_to_map()
    {'to': 2, 'be': 2, 'or': 1, 'not': 1}

    `config` sets what holds for the whole topology, for example `ensure.explicit.internal.resource.naming` and the
    default engine of stores.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._topology = Topology(config)
        self._builder = InternalStreamsBuilder(self._topology.internal_topology_builder, config)

    def stream(self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed[K, V] | None = None) -> KStream[K, V]:
        """A stream of the records of a topic, of several topics, or of all topics whose whole name matches a pattern."""
        if isinstance(consumed, str) and isinstance(topics, str):
            raise misuse(f"several topics are given as a list: write stream([{topics!r}, {consumed!r}])")
        if not isinstance(topics, (str, re.Pattern)) and (isinstance(topics, Consumed) or not isinstance(topics, Iterable)):
            raise misuse(
                f"the topic, a list of topics or a pattern comes first, got {topics!r}: write stream(topic, Consumed(…))"
            )
        given = option(Consumed, consumed) or Consumed()
        name = Named(given.name).or_generate(self._builder.names, naming.STREAM_SOURCE)
        read = [topics] if isinstance(topics, str) else topics
        node = StreamSourceNode(name, read if isinstance(read, re.Pattern) else list(read), _source_options(given))
        self._builder.add_graph_node(self._builder.root, node)
        return KStream(name, given.key_serde, given.value_serde, frozenset([name]), False, node, self._builder)

    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> KTable[K, V]:
        """A table of the latest value of each key in a topic.

        It is kept in a store if it has a name or if some operator needs it; serdes of `consumed` come before those of
        `materialized`.
        """
        names = self._builder.names
        consumed, materialized = _table_options(consumed, materialized)
        store, read = self._table_store(topic, consumed, materialized, force_queryable=False)
        named = Named(None if consumed is None else consumed.name)
        source_name = named.suffixed_or_generate(naming.TABLE_SOURCE_SUFFIX, names, naming.STREAM_SOURCE)
        name = named.or_generate(names, naming.TABLE_SOURCE)
        source = KTableSource(store.store_name, store.queryable_store_name)
        node = TableSourceNode(name, source_name, topic, read, source_parameters(source, name, store))
        node.is_output_versioned = store.is_versioned
        self._builder.add_graph_node(self._builder.root, node)
        return KTable(
            name,
            read.key_serde,
            read.value_serde,
            frozenset([source_name]),
            store.queryable_store_name,
            source,
            node,
            self._builder,
        )

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> GlobalKTable[K, V]:
        """A table of a topic that every instance keeps in full; its store needs no changelog."""
        names = self._builder.names
        consumed, materialized = _table_options(consumed, materialized)
        given = as_materialized(materialized)
        options = replace(given or Materialized(), logging=False, topic_config={})
        # As in Java: without a Materialized the store can be queried by its generated name, with an unnamed one it cannot.
        store, read = self._table_store(topic, consumed, options, force_queryable=given is None)
        if store.is_versioned:
            raise TopologyError(f"the global table of {topic} cannot be versioned: every lookup is of the latest value")
        named = Named(None if consumed is None else consumed.name)
        source_name = named.suffixed_or_generate(naming.TABLE_SOURCE_SUFFIX, names, naming.STREAM_SOURCE)
        name = named.or_generate(names, naming.TABLE_SOURCE)
        source = KTableSource(store.store_name, store.queryable_store_name)
        source.materialize()
        parameters = source_parameters(source, name, store)
        node = TableSourceNode(name, source_name, topic, read, parameters, is_global=True)
        self._builder.add_graph_node(self._builder.root, node)
        return GlobalKTable(KTableMaterializedValueGetterSupplier(store.store_name), store.queryable_store_name)

    def _table_store(
        self,
        topic: str,
        consumed: Consumed[Any, Any] | None,
        materialized: Materialized[Any, Any] | str | None,
        force_queryable: bool,
    ) -> tuple[MaterializedStore, SourceOptions]:
        options = as_materialized(materialized) or Materialized()
        store = MaterializedStore(options, self._builder.names, f"{topic}-", self._builder.config, force_queryable)
        if consumed is None:
            return store, SourceOptions(store.key_serde, store.value_serde)
        store.set_serdes(consumed.key_serde, consumed.value_serde)
        return store, _source_options(consumed)

    def add_state_store(self, store_builder: StoreBuilder[Any]) -> StreamsBuilder:
        """Add a store that `process`, `process_values` and `transform_values` can be connected to by its name."""
        self._builder.add_graph_node(self._builder.root, StateStoreNode(store_builder))
        return self

    def add_global_store(
        self,
        store_builder: StoreBuilder[Any],
        topic: str,
        consumed: Consumed[Any, Any],
        processor_supplier: Callable[[], Any],
    ) -> StreamsBuilder:
        """Add a store that every instance keeps in full, written by a processor of your own from a topic.

        The processor also runs when the store is restored. Every other processor may read the store without being
        connected to it.
        """
        names, named = self._builder.names, Named(consumed.name)
        source_name = named.suffixed_or_generate(naming.TABLE_SOURCE_SUFFIX, names, naming.STREAM_SOURCE)
        processor_name = named.or_generate(names, naming.TABLE_SOURCE)
        node = GlobalStoreNode(
            store_builder.with_logging_disabled(),
            source_name,
            topic,
            _source_options(consumed),
            processor_name,
            processor_supplier,
        )
        self._builder.add_graph_node(self._builder.root, node)
        return self

    def build(self, config: Mapping[str, Any] | None = None) -> Topology:
        """The topology; `config` carries `topology.optimization`."""
        self._builder.build_and_optimize_topology(config)
        return self._topology


def _table_options(
    consumed: Consumed[K, V] | Materialized[K, V] | None, materialized: Materialized[K, V] | str | None
) -> tuple[Consumed[K, V] | None, Materialized[K, V] | None]:
    """Both options of a table; Java also has it with the second alone."""
    if isinstance(consumed, Materialized) and materialized is None:
        return None, consumed
    example = 'table(topic, materialized="name of the store")' if isinstance(consumed, str) else None
    return option(Consumed, consumed, example), as_materialized(materialized)


def _source_options(consumed: Consumed[Any, Any]) -> SourceOptions:
    extractor = consumed.timestamp_extractor
    if extractor is not None:
        extractor = resolve_timestamp_extractor(extractor)
    reset = as_offset_reset(consumed.offset_reset)
    return SourceOptions(consumed.key_serde, consumed.value_serde, extractor, reset, consumed.history)
