"""`KStream`: a stream of records."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from penstock.dsl.arguments import check_supplier, option, required
from penstock.dsl.branched import BranchedKStream
from penstock.dsl.grouped_stream import KGroupedStream
from penstock.dsl.kstream_joins import JoinOperators
from penstock.dsl.kstream_stateless import StatelessOperators
from penstock.dsl.ktable import KTable
from penstock.dsl.ktable_base import source_parameters
from penstock.dsl.options import Grouped, Materialized, Produced, Repartitioned, as_materialized, renamed, with_guesses
from penstock.dsl.typevars import KR, VR, K, V
from penstock.graph import naming
from penstock.graph.materialize import MaterializedStore
from penstock.graph.naming import Named, validate_name
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode, ProcessorToStateConnectorNode, StreamToTableNode
from penstock.graph.repartition import OptimizableRepartitionNode, UnoptimizableRepartitionNode, create_repartition_node
from penstock.graph.sinks import StreamSinkNode
from penstock.operators import KStreamMap, KStreamToFiles, KTableSource, PassThrough
from penstock.operators.files.options import checked_options
from penstock.operators.files.schema import schema_for
from penstock.operators.files.sink import check_format
from penstock.operators.functions import SelectKey
from penstock.processor import Duration, FixedKeyProcessor, Processor
from penstock.record import RecordContext
from penstock.serdes.guessed import guess, guess_forwarded, guess_key, guess_shared
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.user_code import misuse

if TYPE_CHECKING:
    import pyarrow as pa


class KStream(StatelessOperators[K, V], JoinOperators[K, V]):
    """A stream of records with a key and a value, each an event of its own.

    Streams are made by `StreamsBuilder.stream` and by the operators of other streams and tables. Operators describe
    the application; nothing runs until the topology does.
    """

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """The records of both streams, in no particular order between the two."""
        if not isinstance(other, KStream):
            raise misuse(f"a stream is merged with a KStream, not with {other!r}")
        node_name = Named(name).or_generate(self._builder.names, naming.STREAM_MERGE)
        node = ProcessorGraphNode(ProcessorParameters(PassThrough(), node_name))
        node.is_merge_node = True
        self._builder.add_graph_node([self._graph_node, other._graph_node], node)
        # Neither side's serde is known to fit the other's records, unless it is the same.
        return self._derive(
            node,
            key_serde=guess_shared(self._key_serde, other._key_serde, "key"),
            value_serde=guess_shared(self._value_serde, other._value_serde, "value"),
            repartition_required=self._repartition_required or other._repartition_required,
            source_nodes=self._source_nodes | other._source_nodes,
        )

    def split(self, name: str | None = None) -> BranchedKStream[K, V]:
        """Send each record to the first branch whose predicate it fulfils; `name` starts the branches' names."""
        return BranchedKStream(self, name)

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None, *, name: str | None = None) -> KStream[K, V]:
        """The same records, written to a repartition topic and read again: each where its key belongs."""
        given = renamed(option(Repartitioned, repartitioned) or Repartitioned(), name)
        topic_prefix = given.name or self._builder.names.new_processor_name(naming.STREAM_REPARTITION)
        key_serde = self._key_serde if given.key_serde is None else given.key_serde
        value_serde = self._value_serde if given.value_serde is None else given.value_serde
        # As in Kafka Streams, the topic takes the default key serde and not the stream's, if there is one; the stream behind it
        # has the stream's.
        node = create_repartition_node(
            UnoptimizableRepartitionNode,
            self._builder.names,
            given.key_serde or guess(self._key_serde, "key"),
            value_serde,
            topic_prefix,
            given.name is not None,
            given.partitioner,
            InternalTopicProperties(given.number_of_partitions),
        )
        self._builder.add_graph_node(self._graph_node, node)
        return self._derive(node, key_serde, value_serde, repartition_required=False, source_nodes=frozenset([node.node_name]))

    def to(
        self,
        topic: str | Callable[[K, V, RecordContext], str],
        produced: Produced[K, V] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, or to the one that a function of key, value and record context names.

        The topic has to exist; only a repartition topic is made for you.
        """
        if isinstance(topic, Produced):
            raise misuse("the topic comes first: write to(topic, Produced(…))")
        given = renamed(option(Produced, produced) or Produced(), name)
        if not isinstance(topic, str):
            required(topic, "the topic", "key", "value", "record_context")
        node_name = Named(given.name).or_generate(self._builder.names, naming.STREAM_SINK)
        key_serde = self._key_serde if given.key_serde is None else given.key_serde
        value_serde = self._value_serde if given.value_serde is None else given.value_serde
        sink = StreamSinkNode(node_name, topic, key_serde, value_serde, given.partitioner)
        self._builder.add_graph_node(self._graph_node, sink)

    def to_files(
        self,
        path: str | os.PathLike[str],
        format: Literal["parquet", "delta"] = "parquet",
        partition_by: str | Sequence[str] | None = None,
        schema: pa.Schema | type | None = None,
        roll_bytes: int = 128 << 20,
        roll_ms: Duration = 60_000,
        *,
        name: str | None = None,
    ) -> None:
        """Write the values to a folder of Parquet files or to a Delta table, each exactly once; not part of Kafka Streams.

        A value is a row: a dict or an object with fields. `schema` has the columns; without it they are the fields of the type
        that the value serde reads, as with `Serdes.json(Order)`. Keys, timestamps and headers are not written. `partition_by`
        names columns that become folders. A file is complete when `roll_bytes` are staged for it, `roll_ms` after its first row,
        or when the task closes. Give a name: if a generated one changes, the next release does not find the staged rows.
        """
        given = schema_for(schema, self._value_serde)
        options = checked_options(path, format, given, partition_by, roll_bytes, roll_ms)
        check_format(options)
        names = self._builder.names
        node_name = Named(name).or_generate(names, naming.STREAM_TOFILES)
        if name is not None:
            store_name = f"{name}-files-store"
        else:
            store_name = names.new_store_name(naming.STREAM_TOFILES)
            names.note_implicit_store(store_name, logged=True)
        supplier = Stores.persistent_key_value_store(store_name)
        store = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.json())
        node = ProcessorGraphNode(ProcessorParameters(KStreamToFiles(options, node_name, store_name), node_name, [store]))
        self._builder.add_graph_node(self._graph_node, node)

    def to_table(self, materialized: Materialized[K, V] | str | None = None, *, name: str | None = None) -> KTable[K, V]:
        """The latest value of each key: a record is an update, a value of None a deletion."""
        names, builder = self._builder.names, self._builder
        store_name = materialized if isinstance(materialized, str) else None
        inherited = Materialized(store_name, self._key_serde, self._value_serde)
        given = inherited if isinstance(materialized, str) else as_materialized(materialized) or inherited
        node_name = Named(name).or_generate(names, naming.STREAM_TOTABLE)
        store = MaterializedStore(given, names, naming.STREAM_TOTABLE, builder.config)
        key_serde = self._key_serde if store.key_serde is None else store.key_serde
        value_serde = self._value_serde if store.value_serde is None else store.value_serde
        parent: GraphNode = self._graph_node
        source_nodes = self._source_nodes
        if self._repartition_required:
            repartition = create_repartition_node(
                OptimizableRepartitionNode, names, key_serde, value_serde, node_name, name is not None
            )
            builder.add_graph_node(parent, repartition)
            parent, source_nodes = repartition, frozenset([repartition.source_name])
        source = KTableSource(store.store_name, store.queryable_store_name)
        node = StreamToTableNode(source_parameters(source, node_name, store))
        node.is_output_versioned = store.is_versioned
        builder.add_graph_node(parent, node)
        return KTable(node_name, key_serde, value_serde, source_nodes, store.queryable_store_name, source, node, builder)

    def group_by_key(self, grouped: Grouped[K, V] | None = None, *, name: str | None = None) -> KGroupedStream[K, V]:
        """The records grouped by their key; repartitioned first if the key was changed before."""
        inherited = Grouped(key_serde=self._key_serde, value_serde=self._value_serde)
        given = with_guesses(renamed(option(Grouped, grouped) or inherited, name), self._key_serde, self._value_serde)
        return KGroupedStream(self._name, self._source_nodes, given, self._repartition_required, self._graph_node, self._builder)

    def group_by(
        self, selector: Callable[[K, V], KR], grouped: Grouped[KR, V] | None = None, *, name: str | None = None
    ) -> KGroupedStream[KR, V]:
        """The records grouped by a new key, which always means a repartition."""
        required(selector, "the selector", "key", "value")
        default: Grouped[KR, V] = Grouped(value_serde=self._value_serde)
        given = with_guesses(renamed(option(Grouped, grouped) or default, name), guess_key(selector), self._value_serde)
        node = self._add_processor(naming.STREAM_KEY_SELECT, given.name, KStreamMap(SelectKey(selector)), key_changing=True)
        return KGroupedStream(node.node_name, self._source_nodes, given, True, node, self._builder)

    def process(
        self, processor_supplier: Callable[[], Processor[K, V, KR, VR]], *state_store_names: str, name: str | None = None
    ) -> KStream[KR, VR]:
        """The records that a processor of your own forwards; it may use the named stores, and those of its supplier."""
        node = self._add_user_processor(naming.STREAM_PROCESSOR, processor_supplier, state_store_names, name)
        return self._derive(node, *guess_forwarded(processor_supplier, Processor), repartition_required=True)

    def process_values(
        self,
        processor_supplier: Callable[[], FixedKeyProcessor[K, V, VR]],
        *state_store_names: str,
        name: str | None = None,
    ) -> KStream[K, VR]:
        """Like `process`, for a processor that cannot change the key, so that nothing has to be repartitioned."""
        node = self._add_user_processor(naming.STREAM_PROCESSVALUES, processor_supplier, state_store_names, name)
        return self._derive(node, value_serde=guess_forwarded(processor_supplier, FixedKeyProcessor)[1])

    def _add_user_processor(
        self, prefix: str, supplier: Callable[[], Any], store_names: tuple[str, ...], name: str | None
    ) -> ProcessorToStateConnectorNode:
        check_supplier(supplier, "the processor supplier")
        # Unlike all other operators, a named one uses up no index.
        node_name = self._builder.names.new_processor_name(prefix) if name is None else validate_name(name)
        node = ProcessorToStateConnectorNode(ProcessorParameters(supplier, node_name), store_names)
        if self._builder.process_counts_as_change:
            node.is_key_changing_operation = prefix == naming.STREAM_PROCESSOR
            node.is_value_changing_operation = True
        self._builder.add_graph_node(self._graph_node, node)
        return node
