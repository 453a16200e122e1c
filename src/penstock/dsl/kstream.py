"""`KStream`: a stream of records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, overload

from penstock.dsl import global_ktable, stream_dataframe_join, stream_join
from penstock.dsl.abstract_stream import AbstractStream, joiner_with_key, value_mapper_with_key
from penstock.dsl.arguments import check_supplier, option, required
from penstock.dsl.branched import BranchedKStream
from penstock.dsl.grouped_stream import KGroupedStream
from penstock.dsl.ktable import KTable, source_parameters
from penstock.dsl.options import (
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    as_materialized,
    renamed,
    with_guesses,
)
from penstock.dsl.typevars import GK, GV, KR, VO, VR, K, V
from penstock.graph import naming
from penstock.graph.builder import InternalStreamsBuilder
from penstock.graph.materialize import MaterializedStore
from penstock.graph.naming import Named, validate_name
from penstock.graph.node import GraphNode, ProcessorParameters
from penstock.graph.processors import ProcessorGraphNode, ProcessorToStateConnectorNode, StreamToTableNode
from penstock.graph.repartition import (
    BaseRepartitionNode,
    OptimizableRepartitionNode,
    UnoptimizableRepartitionNode,
    create_repartition_node,
)
from penstock.graph.sinks import StreamSinkNode
from penstock.operators import (
    ForeachProcessorSupplier,
    KStreamFilter,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapBatches,
    KStreamMapValues,
    KStreamPeek,
    KStreamPrint,
    KStreamToFiles,
    KTableSource,
    PassThrough,
    PrintForeachAction,
)
from penstock.operators.files.options import checked_options
from penstock.operators.files.schema import schema_for
from penstock.operators.files.sink import check_format
from penstock.operators.functions import SelectKey
from penstock.operators.map_batches import PandasMapper, has_pandas
from penstock.processor import Duration, FixedKeyProcessor, Processor
from penstock.record import RecordContext
from penstock.serdes.guessed import (
    guess,
    guess_entries,
    guess_entry,
    guess_forwarded,
    guess_key,
    guess_shared,
    guess_value,
    guess_values,
)
from penstock.serdes.serde import Serdes
from penstock.state.stores import Stores
from penstock.topology.internal_topics import InternalTopicProperties
from penstock.user_code import misuse
from penstock.windows import JoinWindows

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

_INHERIT: Any = object()


class KStream(AbstractStream[K, V]):
    """A stream of records with a key and a value, each an event of its own.

    Streams are made by `StreamsBuilder.stream` and by the operators of other streams and tables. Operators describe
    the application; nothing runs until the topology does.
    """

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        source_nodes: frozenset[str],
        repartition_required: bool,
        graph_node: GraphNode,
        builder: InternalStreamsBuilder,
    ) -> None:
        super().__init__(name, key_serde, value_serde, source_nodes, graph_node, builder)
        # The key was changed, so records are no longer in the partition of their key.
        self._repartition_required = repartition_required
        self._repartition_node: BaseRepartitionNode | None = None

    def filter(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """The records for which the predicate is true.

        >>> from penstock import Serdes, StreamsBuilder, TopologyTestDriver, Consumed, Produced
        >>> builder = StreamsBuilder()
        >>> text = Serdes.string()
        >>> lines = builder.stream("lines", Consumed(text, text))
        >>> lines.filter(lambda key, line: len(line) > 3).to("long-lines")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("lines", text, text).pipe_key_values([("a", "yes"), ("b", "maybe")])
        ...     driver.create_output_topic("long-lines", text, text).read_key_values()
        [('b', 'maybe')]
        """
        required(predicate, "the predicate", "key", "value")
        return self._derive(self._add_processor(naming.STREAM_FILTER, name, KStreamFilter(predicate, False)))

    def filter_not(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """The records for which the predicate is false."""
        required(predicate, "the predicate", "key", "value")
        return self._derive(self._add_processor(naming.STREAM_FILTER, name, KStreamFilter(predicate, True)))

    def select_key(self, selector: Callable[[K, V], KR], *, name: str | None = None) -> KStream[KR, V]:
        """The same values under new keys; the records are repartitioned where a later operator needs it."""
        required(selector, "the selector", "key", "value")
        node = self._add_processor(naming.STREAM_KEY_SELECT, name, KStreamMap(SelectKey(selector)), key_changing=True)
        return self._derive(node, key_serde=guess_key(selector), repartition_required=True)

    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], *, name: str | None = None) -> KStream[KR, VR]:
        """Each record turned into another key and value; prefer `map_values` where the key stays."""
        required(mapper, "the mapper", "key", "value")
        node = self._add_processor(naming.STREAM_MAP, name, KStreamMap(mapper), key_changing=True)
        return self._derive(node, *guess_entry(mapper), repartition_required=True)

    @overload
    def map_values(
        self, mapper: Callable[[V], VR], with_key: Literal[False] = False, *, name: str | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def map_values(self, mapper: Callable[[K, V], VR], with_key: Literal[True], *, name: str | None = None) -> KStream[K, VR]: ...

    def map_values(self, mapper: Callable[..., Any], with_key: bool = False, *, name: str | None = None) -> KStream[Any, Any]:
        """Each value turned into another; the key stays, so nothing has to be repartitioned."""
        supplier = KStreamMapValues(value_mapper_with_key(mapper, with_key))
        node = self._add_processor(naming.STREAM_MAPVALUES, name, supplier, value_changing=True)
        return self._derive(node, value_serde=guess_value(mapper))

    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, name: str | None = None) -> KStream[KR, VR]:
        """Each record turned into any number of records; prefer `flat_map_values` where the key stays."""
        required(mapper, "the mapper", "key", "value")
        node = self._add_processor(naming.STREAM_FLATMAP, name, KStreamFlatMap(mapper), key_changing=True)
        return self._derive(node, *guess_entries(mapper), repartition_required=True)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[VR]], with_key: Literal[False] = False, *, name: str | None = None
    ) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[VR]], with_key: Literal[True], *, name: str | None = None
    ) -> KStream[K, VR]: ...

    def flat_map_values(
        self, mapper: Callable[..., Any], with_key: bool = False, *, name: str | None = None
    ) -> KStream[Any, Any]:
        """Each value turned into any number of values under the same key.

        >>> from penstock import StreamsBuilder
        >>> words = StreamsBuilder().stream("lines").flat_map_values(str.split, name="split")
        >>> words
        KStream('split')
        """
        supplier = KStreamFlatMapValues(value_mapper_with_key(mapper, with_key))
        node = self._add_processor(naming.STREAM_FLATMAPVALUES, name, supplier, value_changing=True)
        return self._derive(node, value_serde=guess_values(mapper))

    def map_batches(
        self,
        mapper: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        schema: pa.Schema | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Whole batches of records turned into others, as Arrow columns; not part of Kafka Streams.

        The mapper gets and gives a `pyarrow.RecordBatch` with the columns `key`, `value` and `timestamp`. How many
        records a batch has is not promised. Keys may change, so the records count as not partitioned by their key.

        `schema` gives the Arrow types of `key` and `value`. Without it, a batch only holds records whose keys and values
        have equal types: `1` and `2.5`, or dicts with different keys, never share a batch. A value that Arrow would
        change, such as a list of whole numbers and fractions, fails.
        """
        required(mapper, "the mapper", "batch")
        node = self._add_processor(naming.STREAM_MAPBATCHES, name, KStreamMapBatches(mapper, schema), key_changing=True)
        return self._derive(node, None, None, repartition_required=True)

    def map_pandas(
        self,
        mapper: Callable[[pandas.DataFrame], pandas.DataFrame],
        *,
        schema: pa.Schema | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """The same with pandas' data frames; needs the extra `penstock-streams[pandas]`.

        The mapper gets and gives a `pandas.DataFrame` with the columns `key`, `value` and `timestamp`. What pandas takes for
        missing, NaN too, is null.

        >>> from penstock import Consumed, Produced, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.stream("prices", Consumed(str, float))
        >>> prices.map_pandas(lambda frame: frame.assign(value=frame.value.round(1))).to("rounded", Produced(str, float))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.create_input_topic("prices", str, float).pipe_input("tea", 2.56)
        ...     driver.create_output_topic("rounded", str, float).read_key_values()
        [('tea', 2.6)]
        """
        required(mapper, "the mapper", "frame")
        if not has_pandas():
            raise misuse("map_pandas needs an extra: pip install 'penstock-streams[pandas]'")
        supplier = KStreamMapBatches(PandasMapper(mapper), schema)
        node = self._add_processor(naming.STREAM_MAPBATCHES, name, supplier, key_changing=True)
        return self._derive(node, None, None, repartition_required=True)

    def peek(self, action: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """The same records, each shown to `action` first: for logging, not for changing them."""
        required(action, "the action", "key", "value")
        return self._derive(self._add_processor(naming.STREAM_PEEK, name, KStreamPeek(action)))

    def foreach(self, action: Callable[[K, V], Any], *, name: str | None = None) -> None:
        """Call `action` for each record; the stream ends here."""
        required(action, "the action", "key", "value")
        self._add_processor(naming.STREAM_FOREACH, name, ForeachProcessorSupplier(action))

    def print(
        self,
        file: str | IO[str] | None = None,
        label: str | None = None,
        key_value_mapper: Callable[[K, V], str] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Print each record as `[label]: key, value`, to a file or to standard output; the stream ends here.

        `label` defaults to the name of the node above.
        """
        action = PrintForeachAction(file, key_value_mapper, self._name if label is None else label)
        self._add_processor(naming.STREAM_PRINTER, name, KStreamPrint(action))

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

    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[V, GV], VR],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[K, V, GV], VR],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...

    def join(self, other: Any, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Join each record with those of the same key on the other side; records without a match give nothing.

        - a stream: `join(other, joiner, JoinWindows(…), stream_joined=None)`, records at most so far apart;
        - a table: `join(other, joiner, joined=None)`, the table's value at that moment;
        - a global table: `join(other, key_selector, joiner)`, looked up under `key_selector(key, value)`.

        The joiner gets the value of this side and that of the other; with `with_key=True` the key first.
        """
        return stream_join.join(self, other, arguments, options, left=False, right=False)

    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[V, GV | None], VR],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: global_ktable.GlobalKTable[GK, GV],
        key_selector: Callable[[K, V], GK],
        joiner: Callable[[K, V, GV | None], VR],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...

    def left_join(self, other: Any, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Like `join`, but a record of this side without a match is joined with None.

        Between two streams that result comes once the window has closed without a match.
        """
        return stream_join.join(self, other, arguments, options, left=True, right=False)

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, VR]: ...

    def outer_join(self, other: Any, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Like `left_join` with another stream, but records of either side without a match are joined with None."""
        if not isinstance(other, KStream):
            raise misuse(f"outer_join is for two streams; a stream cannot be outer joined with {other!r}")
        return stream_join.join(self, other, arguments, options, left=True, right=True)

    def join_dataframe(
        self,
        make_dataframe: Callable[..., Any],
        joiner: Callable[..., Any],
        on: str | Sequence[str] | tuple[str | Sequence[str], Callable[[K, V], Any]],
        refresh: Duration | None = None,
        *,
        with_key: bool = False,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Join each record with the row of a DataFrame; records without a row give nothing. Not part of Kafka Streams.

        `make_dataframe` is called in the driver, with the SparkSession if it takes a parameter, before the start and then every
        `refresh`. It may return a `pyarrow.Table` or a list of dicts as well. If a refresh fails, the rows of the last one are
        kept. Each stream thread has a copy of the rows in memory. `on="user_id"` looks up the record's key in that column, and
        `on=("user_id", lambda key, value: value["user"])` what the function returns. With several columns the key is a tuple.
        The joiner gets the value and the row as a dict; with `with_key=True` the key first.

        >>> from penstock import Consumed, Produced, Serdes, StreamsBuilder, TopologyTestDriver
        >>> builder, text = StreamsBuilder(), Serdes.string()
        >>> clicks = builder.stream("clicks", Consumed(text, text))
        >>> users = lambda: [{"user_id": "u1", "city": "Oslo"}]
        >>> clicks.join_dataframe(users, lambda page, user: f"{page} from {user['city']}", on="user_id").to("placed")
        >>> with TopologyTestDriver(builder.build(), {"default.key.serde": text, "default.value.serde": text}) as driver:
        ...     driver.create_input_topic("clicks", text, text).pipe_key_values([("u1", "home"), ("u2", "home")])
        ...     driver.create_output_topic("placed", text, text).read_key_values()
        [('u1', 'home from Oslo')]
        """
        return stream_dataframe_join.join_dataframe(self, make_dataframe, joiner_with_key(joiner, with_key), on, refresh, name)

    def _derive(
        self,
        node: GraphNode,
        key_serde: Any = _INHERIT,
        value_serde: Any = _INHERIT,
        repartition_required: bool | None = None,
        source_nodes: frozenset[str] | None = None,
    ) -> KStream[Any, Any]:
        """The stream that comes out of a node; what is not given is inherited."""
        return KStream(
            node.node_name,
            self._key_serde if key_serde is _INHERIT else key_serde,
            self._value_serde if value_serde is _INHERIT else value_serde,
            self._source_nodes if source_nodes is None else source_nodes,
            self._repartition_required if repartition_required is None else repartition_required,
            node,
            self._builder,
        )

    def _add_processor(
        self,
        prefix: str,
        name: str | None,
        supplier: Callable[[], Any],
        key_changing: bool = False,
        value_changing: bool = False,
    ) -> ProcessorGraphNode:
        node_name = Named(name).or_generate(self._builder.names, prefix)
        node = ProcessorGraphNode(ProcessorParameters(supplier, node_name))
        node.is_key_changing_operation = key_changing
        node.is_value_changing_operation = value_changing
        self._builder.add_graph_node(self._graph_node, node)
        return node

    def _repartition_for_join(
        self, repartition_name: str, key_serde: Any, value_serde: Any, name_given_by_user: bool
    ) -> KStream[K, V]:
        """This stream behind a repartition topic; a second join under the same name reuses the topic.

        The node is made each time, because making it uses up three indices.
        """
        key_serde = self._key_serde if key_serde is None else key_serde
        value_serde = self._value_serde if value_serde is None else value_serde
        created = create_repartition_node(
            OptimizableRepartitionNode, self._builder.names, key_serde, value_serde, repartition_name, name_given_by_user
        )
        if self._repartition_node is None or self._name != repartition_name:
            self._repartition_node = created
            self._builder.add_graph_node(self._graph_node, created)
        return KStream(
            created.source_name,
            key_serde,
            value_serde,
            frozenset([created.source_name]),
            False,
            self._repartition_node,
            self._builder,
        )

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
