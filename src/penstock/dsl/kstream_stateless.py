"""The operators of a stream that look at one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import IO, TYPE_CHECKING, Any, Literal, overload

from penstock.dsl import kstream
from penstock.dsl.abstract_stream import value_mapper_with_key
from penstock.dsl.arguments import required
from penstock.dsl.kstream_base import StreamBase
from penstock.dsl.typevars import KR, VR, K, V
from penstock.graph import naming
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
    PrintForeachAction,
)
from penstock.operators.functions import SelectKey
from penstock.operators.map_batches import PandasMapper, has_pandas
from penstock.serdes.guessed import guess_entries, guess_entry, guess_key, guess_value, guess_values
from penstock.user_code import misuse

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa


class StatelessOperators(StreamBase[K, V]):
    """filter, map, flat_map and their kin."""

    def filter(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> kstream.KStream[K, V]:
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

    def filter_not(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> kstream.KStream[K, V]:
        """The records for which the predicate is false."""
        required(predicate, "the predicate", "key", "value")
        return self._derive(self._add_processor(naming.STREAM_FILTER, name, KStreamFilter(predicate, True)))

    def select_key(self, selector: Callable[[K, V], KR], *, name: str | None = None) -> kstream.KStream[KR, V]:
        """The same values under new keys; the records are repartitioned where a later operator needs it."""
        required(selector, "the selector", "key", "value")
        node = self._add_processor(naming.STREAM_KEY_SELECT, name, KStreamMap(SelectKey(selector)), key_changing=True)
        return self._derive(node, key_serde=guess_key(selector), repartition_required=True)

    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], *, name: str | None = None) -> kstream.KStream[KR, VR]:
        """Each record turned into another key and value; prefer `map_values` where the key stays."""
        required(mapper, "the mapper", "key", "value")
        node = self._add_processor(naming.STREAM_MAP, name, KStreamMap(mapper), key_changing=True)
        return self._derive(node, *guess_entry(mapper), repartition_required=True)

    @overload
    def map_values(
        self, mapper: Callable[[V], VR], with_key: Literal[False] = False, *, name: str | None = None
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], VR], with_key: Literal[True], *, name: str | None = None
    ) -> kstream.KStream[K, VR]: ...

    def map_values(
        self, mapper: Callable[..., Any], with_key: bool = False, *, name: str | None = None
    ) -> kstream.KStream[Any, Any]:
        """Each value turned into another; the key stays, so nothing has to be repartitioned."""
        supplier = KStreamMapValues(value_mapper_with_key(mapper, with_key))
        node = self._add_processor(naming.STREAM_MAPVALUES, name, supplier, value_changing=True)
        return self._derive(node, value_serde=guess_value(mapper))

    def flat_map(self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], *, name: str | None = None) -> kstream.KStream[KR, VR]:
        """Each record turned into any number of records; prefer `flat_map_values` where the key stays."""
        required(mapper, "the mapper", "key", "value")
        node = self._add_processor(naming.STREAM_FLATMAP, name, KStreamFlatMap(mapper), key_changing=True)
        return self._derive(node, *guess_entries(mapper), repartition_required=True)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[VR]], with_key: Literal[False] = False, *, name: str | None = None
    ) -> kstream.KStream[K, VR]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[VR]], with_key: Literal[True], *, name: str | None = None
    ) -> kstream.KStream[K, VR]: ...

    def flat_map_values(
        self, mapper: Callable[..., Any], with_key: bool = False, *, name: str | None = None
    ) -> kstream.KStream[Any, Any]:
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
    ) -> kstream.KStream[Any, Any]:
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
    ) -> kstream.KStream[Any, Any]:
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

    def peek(self, action: Callable[[K, V], Any], *, name: str | None = None) -> kstream.KStream[K, V]:
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
