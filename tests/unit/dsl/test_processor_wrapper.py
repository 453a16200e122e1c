"""A `ProcessorWrapper` gets every processor of the DSL with the stores of its supplier."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import (
    BufferConfig,
    Consumed,
    FixedKeyProcessor,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorWrapper,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    TopologyTestDriver,
)

DAY = timedelta(days=1)


class RecordingSupplier:
    """A supplier that notes which stores are read from it."""

    def __init__(self, recorder: RecordingWrapper, name: str, supplier: Any) -> None:
        self._recorder = recorder
        self._name = name
        self._supplier = supplier

    @property
    def stores(self) -> list[Any]:
        """The stores of the wrapped supplier."""
        stores = list(getattr(self._supplier, "stores", ()))
        self._recorder.connected.update((self._name, store.name) for store in stores)
        return stores

    def __call__(self) -> Any:
        return self._supplier()


class RecordingWrapper(ProcessorWrapper):
    """Notes names of processors, and pairs of processor and store."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.connected: set[tuple[str, str]] = set()

    def wrap_processor_supplier(self, processor_name: str, supplier: Any) -> Any:
        self.names.add(processor_name)
        return RecordingSupplier(self, processor_name, supplier)

    def wrap_fixed_key_processor_supplier(self, processor_name: str, supplier: Any) -> Any:
        return self.wrap_processor_supplier(processor_name, supplier)


def _reduce(b: StreamsBuilder) -> None:
    grouped = b.stream("input", Consumed(name="source")).group_by(lambda k, v: k, Grouped("groupBy"))
    grouped.reduce(max, Materialized("store"), name="reduce").to_stream(name="toStream")


def _count(b: StreamsBuilder) -> None:
    b.stream("input").group_by_key().count(name="count").to_stream(name="toStream")


def _suppress(b: StreamsBuilder) -> None:
    counts = b.stream("input").group_by_key().count(name="count")
    suppressed = Suppressed.until_time_limit(timedelta(seconds=10), BufferConfig.unbounded()).with_name("suppressed")
    counts.suppress(suppressed).to_stream(name="toStream")


def _windowed(windows: Any) -> Callable[[StreamsBuilder], None]:
    def build(b: StreamsBuilder) -> None:
        b.stream("input").group_by_key().windowed_by(windows).count(name="count").to_stream(name="toStream")

    return build


def _cogroup(b: StreamsBuilder) -> None:
    one, two = (b.stream(topic).group_by_key() for topic in ("one", "two"))
    cogrouped = one.cogroup(lambda k, v, a: a).cogroup(two, lambda k, v, a: a)
    cogrouped.aggregate(str, Materialized("store"), name="aggregate").to_stream(name="toStream")


def _table_map_values(b: StreamsBuilder) -> None:
    mapped = b.table("input", Consumed(name="source")).map_values(len, materialized=Materialized("store"), name="map-values")
    mapped.to_stream(name="toStream")


def _table_filter(b: StreamsBuilder) -> None:
    table = b.table("input", Consumed(name="source"))
    table.filter(lambda k, v: True, Materialized("filter"), name="filter").to_stream(name="toStream")


def _table_count(b: StreamsBuilder) -> None:
    grouped = b.table("input", Consumed(name="source")).group_by(lambda k, v: (k, v), Grouped("groupBy"))
    grouped.count(name="count").to_stream(name="toStream")


def _stateless(b: StreamsBuilder) -> None:
    filtered = b.stream("input").filter(lambda k, v: True, name="filter").map(lambda k, v: (k, v), name="map")
    filtered.select_key(lambda k, v: k, name="key").peek(print, name="peek").flat_map_values(list, name="flat").to("output")


def _many_table_operators(b: StreamsBuilder) -> None:
    mapped = b.stream("input").to_table(name="to-table").map_values(len, name="map")
    mapped = mapped.map_values(len, materialized=Materialized("map-stateful"), name="map-stateful")
    filtered = mapped.filter(lambda k, v: True, name="filter")
    filtered.filter(lambda k, v: True, Materialized("filter-stateful"), name="filter-stateful").to_stream(name="toStream")


def _source_table(*options: Any) -> Callable[[StreamsBuilder], None]:
    return lambda b: b.table("input", Consumed(name="source"), *options).to_stream(name="toStream") and None


def _stream_join(kind: str, windows: Any = None) -> Callable[[StreamsBuilder], None]:
    def build(b: StreamsBuilder) -> None:
        left, right = b.stream("input-1"), b.stream("input-2")
        getattr(left, kind)(right, max, windows or JoinWindows(DAY, grace=DAY), StreamJoined(store_name="ss-join")).to("output")

    return build


def _self_join(b: StreamsBuilder) -> None:
    stream = b.stream("input")
    stream.join(stream, max, JoinWindows(DAY, grace=0), StreamJoined(store_name="ss-join")).to("output")


def _stream_table_join(b: StreamsBuilder) -> None:
    b.stream("input").join(b.table("table", Consumed(name="source")), max, Joined(name="st-join")).to("output")


def _stream_table_join_with_grace(b: StreamsBuilder) -> None:
    versioned = Materialized(supplier=Stores.persistent_versioned_key_value_store("table-store", DAY))
    table = b.table("table", Consumed(name="source"), versioned)
    b.stream("input").join(table, max, Joined(name="st-join", grace_period=DAY)).to("output")


def _table_join(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(b: StreamsBuilder) -> None:
        left, right = b.table("input1", Consumed(name="input1")), b.table("input2", Consumed(name="input2"))
        getattr(left, kind)(right, max, Materialized("the_join"), name="join").to_stream(name="toStream").to("output")

    return build


def _foreign_key_join(kind: str) -> Callable[[StreamsBuilder], None]:
    def build(b: StreamsBuilder) -> None:
        left, right = b.table("input1", Consumed(name="input1")), b.table("input2", Consumed(name="input2"))
        options = {"foreign_key": str, "table_joined": TableJoined("join"), "materialized": Materialized("kept")}
        getattr(left, kind)(right, max, **options).to_stream(name="toStream").to("output", Produced(name="sink"))

    return build


JOIN_NAMES = "KSTREAM-WINDOWED-0000000002 KSTREAM-WINDOWED-0000000003 KSTREAM-MERGE-0000000006"
TABLE_JOIN_NAMES = "input1 input2 join-join-this join-join-other join toStream"
FOREIGN_KEY_NAMES = (
    "input1 input2 join-foreign-join-subscription join-subscription-join-foreign join-subscription-registration-processor "
    "join-subscription-receive join-result join-subscription-response-resolver toStream"
)
# Program, names of the wrapped processors, distinct stores, pairs of processor and store: numbers of Kafka Streams' tests.
CASES: dict[str, tuple[Callable[[StreamsBuilder], None], str, int, int]] = {
    "reduce": (_reduce, "groupBy groupBy-repartition-filter reduce toStream", 1, 1),
    "count": (_count, "count toStream", 1, 1),
    "suppress": (_suppress, "count suppressed toStream", 2, 2),
    "time windows": (_windowed(TimeWindows(DAY, grace=0)), "count toStream", 1, 1),
    "sliding windows": (_windowed(SlidingWindows(DAY, grace=0)), "count toStream", 1, 1),
    "session windows": (_windowed(SessionWindows(DAY, grace=0)), "count toStream", 1, 1),
    "cogroup": (_cogroup, "aggregate-cogroup-agg-0 aggregate-cogroup-agg-1 aggregate-cogroup-merge toStream", 1, 2),
    "table map_values": (_table_map_values, "source map-values toStream", 1, 1),
    "table filter": (_table_filter, "source filter toStream", 1, 1),
    "table count": (_table_count, "source groupBy count toStream", 2, 2),
    "stateless": (_stateless, "filter map key peek flat", 0, 0),
    "table operators": (_many_table_operators, "to-table map map-stateful filter filter-stateful toStream", 2, 2),
    "source table": (_source_table(), "source toStream", 0, 0),
    "materialized source table": (_source_table(Materialized("store")), "source toStream", 1, 1),
    "join": (_stream_join("join"), f"KSTREAM-JOINTHIS-0000000004 KSTREAM-JOINOTHER-0000000005 {JOIN_NAMES}", 2, 4),
    "left_join": (_stream_join("left_join"), f"KSTREAM-JOINTHIS-0000000004 KSTREAM-OUTEROTHER-0000000005 {JOIN_NAMES}", 3, 6),
    "outer_join": (_stream_join("outer_join"), f"KSTREAM-OUTERTHIS-0000000004 KSTREAM-OUTEROTHER-0000000005 {JOIN_NAMES}", 3, 6),
    "eager outer_join": (
        _stream_join("outer_join", JoinWindows.of(DAY)),
        f"KSTREAM-OUTERTHIS-0000000004 KSTREAM-OUTEROTHER-0000000005 {JOIN_NAMES}",
        2,
        4,
    ),
    "stream-table join": (_stream_table_join, "source st-join", 1, 1),
    "stream-table join with grace": (_stream_table_join_with_grace, "source st-join", 2, 2),
    "table join": (_table_join("join"), TABLE_JOIN_NAMES, 3, 3),
    "table left_join": (_table_join("left_join"), TABLE_JOIN_NAMES, 3, 3),
    "table outer_join": (_table_join("outer_join"), TABLE_JOIN_NAMES, 3, 3),
    "foreign-key join": (_foreign_key_join("join"), FOREIGN_KEY_NAMES, 4, 5),
    "foreign-key left_join": (_foreign_key_join("left_join"), FOREIGN_KEY_NAMES, 4, 5),
}


@pytest.mark.parametrize("case", CASES)
def test_should_show_the_stores_of_dsl_suppliers_to_a_wrapper(case: str) -> None:
    program, names, stores, pairs = CASES[case]
    wrapper = RecordingWrapper()
    builder = StreamsBuilder({"processor.wrapper.class": wrapper})
    program(builder)
    builder.build()
    assert wrapper.names == set(names.split())
    assert len({store for _, store in wrapper.connected}) == stores
    assert len(wrapper.connected) == pairs


@pytest.mark.parametrize(("optimization", "processors", "stores", "pairs"), [("none", 5, 2, 4), ("all", 2, 1, 2)])
def test_should_show_the_shared_store_of_an_optimized_self_join(
    optimization: str, processors: int, stores: int, pairs: int
) -> None:
    wrapper = RecordingWrapper()
    builder = StreamsBuilder({"processor.wrapper.class": wrapper})
    _self_join(builder)
    builder.build({"topology.optimization": optimization})
    assert len(wrapper.names) == processors
    assert len({store for _, store in wrapper.connected}) == stores
    assert len(wrapper.connected) == pairs


def test_should_show_the_stores_of_the_users_suppliers() -> None:
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), Serdes.string(), Serdes.string())

    class First(Processor[Any, Any, Any, Any]):
        stores = (store,)

    class Second(Processor[Any, Any, Any, Any]):
        stores = (store,)

    wrapper = RecordingWrapper()
    builder = StreamsBuilder({"processor.wrapper.class": wrapper})
    stream = builder.stream("input").process(First, name="first").process(Second, name="second")
    stream.process_values(FixedKeyProcessor, name="values")
    builder.build()
    assert wrapper.names == {"first", "second", "values"}
    assert wrapper.connected == {("first", "store"), ("second", "store")}


class InMemory(ProcessorWrapper):
    """Exchanges the store of the count for one in memory."""

    def wrap_processor_supplier(self, processor_name: str, supplier: Any) -> Any:
        if processor_name != "count":
            return supplier
        recorded = RecordingSupplier(RecordingWrapper(), processor_name, supplier)
        (store,) = recorded.stores
        exchanged = Stores.timestamped_key_value_store_builder(
            Stores.in_memory_key_value_store(store.name), Serdes.string(), Serdes.long()
        )

        class Exchanged(RecordingSupplier):
            stores = (exchanged,)  # type: ignore[assignment]

        return Exchanged(RecordingWrapper(), processor_name, supplier)


def test_should_use_the_stores_that_a_wrapper_puts_in_place_of_the_dsls() -> None:
    config = {"application.id": "app", "processor.wrapper.class": InMemory()}
    builder = StreamsBuilder(config)
    grouped = builder.stream("input", Consumed(Serdes.string(), Serdes.string())).group_by_key()
    grouped.count(Materialized("counts", Serdes.string(), Serdes.long()), name="count")
    with TopologyTestDriver(builder.build(), config) as driver:
        topic = driver.create_input_topic("input", Serdes.string(), Serdes.string())
        topic.pipe_input("a", "x")
        topic.pipe_input("a", "y")
        store = driver.get_key_value_store("counts")
        assert store is not None
        assert store.get("a") == 2
        assert not store.persistent
