"""`KTable`: the latest value of each key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, overload

from penstock.dsl import kstream
from penstock.dsl.abstract_stream import AbstractStream, joiner_with_key, value_mapper_with_key
from penstock.dsl.arguments import check_supplier, option, required
from penstock.dsl.foreign_key_join import join_on_foreign_key
from penstock.dsl.grouped_table import KGroupedTable
from penstock.dsl.options import Grouped, Materialized, TableJoined, as_materialized, renamed, with_guesses
from penstock.dsl.suppressed import Suppressed
from penstock.dsl.table_table_join import join_tables
from penstock.dsl.typevars import KO, KR, VO, VR, K, V
from penstock.errors import TopologyError
from penstock.graph import naming
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import KeyValueStoreMaterializer, MaterializedStore
from penstock.graph.naming import Named
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import (
    ProcessorGraphNode,
    ProcessorToStateConnectorNode,
    TableSuppressNode,
    VersionAwareProcessorNode,
)
from penstock.graph.search import find_and_verify_window_grace
from penstock.graph.tables import TableParent
from penstock.operators import (
    KStreamMapValues,
    KTableFilter,
    KTableMapValues,
    KTableRepartitionMap,
    KTableSource,
    KTableSuppressProcessorSupplier,
    KTableTransformValues,
    SuppressedInternal,
    window_end_time,
)
from penstock.operators.functions import new_value
from penstock.processor import ValueTransformerWithKey
from penstock.serdes.arguments import is_serde
from penstock.serdes.guessed import given_serde, guess, guess_entry, guess_forwarded, guess_value
from penstock.state.buffers import InMemoryTimeOrderedKeyValueChangeBufferBuilder
from penstock.state.store import StoreBuilder
from penstock.topology.supplied_stores import stores_of
from penstock.user_code import misuse

_log = logging.getLogger(__name__)

_SUPPRESSED = "suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))"


class KTable(AbstractStream[K, V]):
    """A table: the latest value of each key, changed by every record; a value of None deletes the key.

    Tables are made by `StreamsBuilder.table`, `KStream.to_table`, aggregations, and the operators of other tables.
    A table that is given a `Materialized` with a name is kept in a store that can be queried.
    """

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        queryable_store_name: str | None,
        supplier: Any,
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, key_serde, value_serde, source_nodes, graph_node, builder)
        self._queryable_store_name = queryable_store_name
        self._parent = TableParent(graph_node.node_name, supplier)

    @property
    def queryable_store_name(self) -> str | None:
        """The name of the table's store, for queries; None where the table has no store of its own or only a generated name."""
        return self._queryable_store_name

    def filter(
        self,
        predicate: Callable[[K, V], Any],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The rows for which the predicate is true; for all others deletions, where there was something to delete."""
        return self._filter(predicate, materialized, name, False)

    def filter_not(
        self,
        predicate: Callable[[K, V], Any],
        materialized: Materialized[K, V] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The rows for which the predicate is false."""
        return self._filter(predicate, materialized, name, True)

    def _filter(
        self, predicate: Callable[[K, V], Any], materialized: Materialized[K, V] | str | None, name: str | None, filter_not: bool
    ) -> KTable[K, V]:
        required(predicate, "the predicate", "key", "value")
        store, stores = self._store_if_named(materialized, naming.TABLE_FILTER, self._value_serde)
        queryable = None if store is None else store.queryable_store_name
        node_name = Named(name).or_generate(self._builder.names, naming.TABLE_FILTER)
        supplier = KTableFilter(self._parent, predicate, filter_not, queryable)
        node = VersionAwareProcessorNode(ProcessorParameters(supplier, node_name, stores))
        key_serde, value_serde = self._key_serde, self._value_serde
        if store is not None:
            key_serde = given_serde(store.key_serde) or key_serde
            value_serde = given_serde(store.value_serde) or value_serde
        return self._derive_table(node, key_serde, value_serde, store, supplier)

    @overload
    def map_values(
        self, mapper: Callable[[V], VR], with_key: Materialized[K, VR] | str, *, name: str | None = None
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[V], VR],
        with_key: Literal[False] = False,
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], VR],
        with_key: Literal[True],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, VR]: ...

    def map_values(
        self,
        mapper: Callable[..., Any],
        with_key: bool | Materialized[Any, Any] | str = False,
        materialized: Materialized[Any, Any] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        """Each value turned into another. A `Materialized`, or its name, may follow the mapper, as in Java."""
        if isinstance(with_key, (Materialized, str)):
            if materialized is not None:
                raise misuse(f"with_key is True or False, got {with_key!r}, and materialized is given as well")
            materialized, with_key = with_key, False
        store, stores = self._store_if_named(materialized, naming.TABLE_MAPVALUES, guess_value(mapper))
        queryable = None if store is None else store.queryable_store_name
        node_name = Named(name).or_generate(self._builder.names, naming.TABLE_MAPVALUES)
        supplier = KTableMapValues(self._parent, value_mapper_with_key(mapper, with_key), queryable)
        node = ProcessorGraphNode(ProcessorParameters(supplier, node_name, stores))
        key_serde = self._key_serde if store is None else given_serde(store.key_serde) or self._key_serde
        value_serde = guess_value(mapper) if store is None else store.value_serde
        return self._derive_table(node, key_serde, value_serde, store, supplier)

    def transform_values(
        self,
        transformer_supplier: Callable[[], ValueTransformerWithKey[K, V, VR]],
        *state_store_names: str,
        materialized: Materialized[K, VR] | str | None = None,
        name: str | None = None,
    ) -> KTable[K, VR]:
        """Each value turned into another by a transformer that may use stores.

        Without `materialized` the transformer is also called to look up values, so it must not depend on the order of
        calls.
        """
        check_supplier(transformer_supplier, "the transformer supplier")
        guessed = guess_forwarded(transformer_supplier, ValueTransformerWithKey)[1]
        store, stores = self._store_if_named(materialized, None, guessed)
        stores.extend(stores_of(transformer_supplier))
        queryable = None if store is None else store.queryable_store_name
        node_name = Named(name).or_generate(self._builder.names, naming.TABLE_TRANSFORMVALUES)
        supplier = KTableTransformValues(self._parent, transformer_supplier, queryable)
        node = ProcessorToStateConnectorNode(ProcessorParameters(supplier, node_name, stores), state_store_names)
        key_serde = self._key_serde if store is None else given_serde(store.key_serde) or self._key_serde
        return self._derive_table(node, key_serde, guessed if store is None else store.value_serde, store, supplier)

    @overload
    def to_stream(self, key_mapper: None = None, *, name: str | None = None) -> kstream.KStream[K, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[K, V], KR], *, name: str | None = None) -> kstream.KStream[KR, V]: ...

    def to_stream(self, key_mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None) -> kstream.KStream[Any, V]:
        """The table's changes as a stream, under new keys if a mapper is given."""
        node_name = Named(name).or_generate(self._builder.names, naming.TABLE_TOSTREAM)
        node = ProcessorGraphNode(ProcessorParameters(KStreamMapValues(new_value), node_name))
        self._builder.add_graph_node(self._graph_node, node)
        stream: kstream.KStream[K, V] = kstream.KStream(
            node_name, self._key_serde, self._value_serde, self._source_nodes, False, node, self._builder
        )
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """The table with some of its updates held back, see `Suppressed`."""
        if option(Suppressed, suppressed, _SUPPRESSED) is None:
            raise misuse(f"needs to be told what to hold back: write {_SUPPRESSED}")
        if self._graph_node.is_output_versioned:
            raise TopologyError(f"suppress() is only supported for tables that are not versioned, but {self._name} is")
        names = self._builder.names
        given_name = renamed(suppressed, name).name
        node_name = given_name or names.new_processor_name(naming.TABLE_SUPPRESS)
        internal = self._suppressed_internal(suppressed, given_name, node_name)
        bounds = suppressed.buffer_config
        if given_name is not None:
            store_name = f"{given_name}-store"
        else:
            store_name = names.new_store_name(naming.TABLE_SUPPRESS)
            if bounds.logging:
                names.note_implicit(changelog_topic=f"{store_name}-changelog")
        buffer = InMemoryTimeOrderedKeyValueChangeBufferBuilder(store_name, self._key_serde, self._value_serde)
        buffer = buffer.with_logging_enabled(bounds.topic_config) if bounds.logging else buffer.with_logging_disabled()
        supplier = KTableSuppressProcessorSupplier(internal, store_name, self._parent)
        node = TableSuppressNode(ProcessorParameters(supplier, node_name, [buffer]))
        node.is_output_versioned = False
        self._builder.add_graph_node(self._graph_node, node)
        return KTable(node_name, self._key_serde, self._value_serde, frozenset([self._name]), None, supplier, node, self._builder)

    def _suppressed_internal(self, suppressed: Suppressed, name: str | None, node_name: str) -> SuppressedInternal:
        if suppressed.time_to_wait_ms is not None:
            return SuppressedInternal(name, suppressed.time_to_wait_ms, suppressed.buffer_config)
        grace_ms = find_and_verify_window_grace(self._graph_node)
        _log.info("Using grace period of [%d ms] as the suppress duration for node [%s].", grace_ms, node_name)
        return SuppressedInternal(name, grace_ms, suppressed.buffer_config, window_end_time, True)

    def group_by(
        self, selector: Callable[[K, V], tuple[KR, VR]], grouped: Grouped[KR, VR] | None = None, *, name: str | None = None
    ) -> KGroupedTable[KR, VR]:
        """The rows grouped by a new key, with a new value: `selector` gives both."""
        required(selector, "the selector", "key", "value")
        default: Grouped[KR, VR] = Grouped()
        given = with_guesses(renamed(option(Grouped, grouped) or default, name), *guess_entry(selector))
        node_name = Named(given.name).or_generate(self._builder.names, naming.TABLE_SELECT)
        node = VersionAwareProcessorNode(ProcessorParameters(KTableRepartitionMap(self._parent, selector), node_name))
        self._builder.add_graph_node(self._graph_node, node)
        self._parent.enable_sending_old_values(True)
        return KGroupedTable(node_name, self._source_nodes, given, node, self._builder)

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        foreign_key: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        foreign_key: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KTable[K, VR]: ...

    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | str | None = None,
        *java_order: Any,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        """Join each row with the row of the other table under the same key, or under a foreign key in its value.

        Both sides may change, and each change gives a new result; where one side has no row there is no result. With
        `foreign_key=lambda value: …` the other table may be partitioned in its own way; rows of this table without a
        foreign key give no result. `with_key=True` gives that function the key first.
        """
        _refuse_java_order(materialized, java_order)
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=False)

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        foreign_key: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        foreign_key: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KTable[K, VR]: ...

    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | str | None = None,
        *java_order: Any,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
        with_key: bool = False,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        """Like `join`, but a row of this table without a match is joined with None."""
        _refuse_java_order(materialized, java_order)
        return self._join(other, joiner, materialized, foreign_key, table_joined, with_key, name, left_outer=True)

    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        materialized: Materialized[K, VR] | str | None = None,
        *,
        name: str | None = None,
    ) -> KTable[K, VR]:
        """Like `left_join`, but rows of either table without a match are joined with None."""
        return join_tables(self, _table(other), joiner_with_key(joiner, False), name, materialized, True, True)

    def _join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        materialized: Materialized[Any, Any] | str | None,
        foreign_key: Callable[..., Any] | None,
        table_joined: TableJoined[Any, Any] | None,
        with_key: bool,
        name: str | None,
        left_outer: bool,
    ) -> KTable[Any, Any]:
        join_values = joiner_with_key(joiner, False)
        if foreign_key is None:
            if table_joined is not None or with_key:
                raise misuse("table_joined and with_key are for joins on a foreign key: give foreign_key= as well")
            return join_tables(self, _table(other), join_values, name, materialized, left_outer, False)
        extractor = value_mapper_with_key(foreign_key, with_key, "foreign_key")
        options = renamed(option(TableJoined, table_joined) or TableJoined(), name)
        return join_on_foreign_key(
            self, _table(other), extractor, join_values, options, as_materialized(materialized) or Materialized(), left_outer
        )

    def _store_if_named(
        self, materialized: Materialized[Any, Any] | str | None, prefix: str | None, value_serde: Any = None
    ) -> tuple[MaterializedStore | None, list[StoreBuilder[Any]]]:
        """The store of an operator that is materialized only under a name of the user's.

        Options without a name still use up the index of a store name where there is a prefix for one.
        """
        given = as_materialized(materialized)
        if given is None:
            return None, []
        store = MaterializedStore(given, config=self._builder.config)
        if store.queryable_store_name is not None:
            store.default_key_serde(guess(self._key_serde, "key"))
            store.default_value_serde(guess(value_serde, "value"))
            return store, [KeyValueStoreMaterializer(store)]
        if prefix is not None:
            self._builder.names.new_store_name(prefix)
        return store, []

    def _derive_table(
        self, node: GraphNode, key_serde: Any, value_serde: Any, store: MaterializedStore | None, supplier: Any
    ) -> KTable[Any, Any]:
        queryable = None
        if store is not None:
            node.is_output_versioned = store.is_versioned
            queryable = store.queryable_store_name
        self._builder.add_graph_node(self._graph_node, node)
        return KTable(node.node_name, key_serde, value_serde, self._source_nodes, queryable, supplier, node, self._builder)


def source_parameters(source: KTableSource, name: str, store: MaterializedStore) -> ProcessorParameters:
    """The processor that keeps a table; its store is added only if somebody needs it by the time the graph is written."""
    builder = KeyValueStoreMaterializer(store)
    return ProcessorParameters(source, name, lambda: [builder] if source.materialized else [])


def _refuse_java_order(materialized: Any, java_order: tuple[Any, ...]) -> None:
    """In Java the function that gives the foreign key comes before the joiner."""
    if java_order or (callable(materialized) and not is_serde(materialized)) or isinstance(materialized, TableJoined):
        raise misuse(
            "a join on a foreign key is written join(other, joiner, foreign_key=lambda value: …, table_joined=TableJoined(…), "
            "materialized=Materialized(…)): the joiner comes second, all else by name"
        )


def _table(other: Any) -> KTable[Any, Any]:
    if not isinstance(other, KTable):
        raise misuse(f"a table joins with a KTable, not with {other!r}")
    return other
