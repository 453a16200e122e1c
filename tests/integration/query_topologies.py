"""Topologies that the tests of queries run; importable, so that Spark's workers find their functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock import (
    Materialized,
    PositionBound,
    Processor,
    Produced,
    PunctuationType,
    Query,
    QueryConfig,
    QueryResult,
    Record,
    Serdes,
    SessionWindows,
    StateStore,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from tests.integration.topologies import BY_TEXT, TEXT, long, shout, string

DAY = 24 * 60 * 60 * 1000


def all_kinds(source: str) -> Topology:
    """Counts, windows, sessions and versions by key."""
    builder = StreamsBuilder()
    by_key = builder.stream(source, TEXT).group_by_key(BY_TEXT)
    by_key.count(Materialized("counts", string, long))
    by_key.windowed_by(TimeWindows(10_000, grace=0)).count(Materialized("windows", string, long))
    by_key.windowed_by(SessionWindows(1_000, grace=0)).count(Materialized("sessions", string, long))
    versions = Stores.persistent_versioned_key_value_store("versions", DAY)
    builder.stream(source, TEXT).to_table(Materialized(None, string, string, supplier=versions))
    return builder.build()


@dataclass(frozen=True)
class HowMany(Query[int]):
    """How many keys begin so: a query that only `Keys` knows."""

    start: str


class Keys(StateStore):
    """All keys that have come: a store of the user's own kind."""

    persistent = False
    is_open = True

    def __init__(self, name: str) -> None:
        self._name = name
        self.known: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    def init(self, context: Any, root: StateStore) -> None:
        context.register(root, lambda records: None)

    def close(self) -> None:
        self.known.clear()

    def query(self, query: Query[Any], position_bound: PositionBound, config: QueryConfig) -> QueryResult[Any]:
        if isinstance(query, HowMany):
            return QueryResult.for_result(sum(key.startswith(query.start) for key in self.known))
        return super().query(query, position_bound, config)


class KeysBuilder(StoreBuilder[Keys]):
    def build(self) -> Keys:
        return Keys(self.name)


class Remember(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("known")

    def process(self, record: Record[Any, Any]) -> None:
        self.store.known.add(record.key)


def in_memory(source: str) -> Topology:
    """Counts by key, in memory, and all keys in a store of the user's own kind."""
    builder = StreamsBuilder()
    counts: Materialized[str, int] = Materialized("counts", string, long, store_type="in_memory")
    stream = builder.stream(source, TEXT)
    stream.group_by_key(BY_TEXT).count(counts)
    builder.add_state_store(KeysBuilder("known").with_logging_disabled())
    stream.process(Remember, "known")
    return builder.build()


def names(source: str, table: str) -> Topology:
    """A global table beside a stream that has nothing to do with it."""
    builder = StreamsBuilder()
    builder.global_table(table, TEXT, Materialized("names", string, string))
    builder.stream(source, TEXT).foreach(nothing)
    return builder.build()


def nothing(key: str, value: str) -> None:
    """Nothing."""


def shouted_words(source: str, sink: str) -> Topology:
    """How often each word in capitals has come; the line `boom` fails."""
    builder = StreamsBuilder()
    words = builder.stream(source, TEXT).map_values(shout).flat_map_values(str.split).group_by(lambda _, word: word, BY_TEXT)
    words.count(Materialized("counts", string, long)).to_stream().to(sink, Produced(string, long))
    return builder.build()


class Everywhere(Processor[Any, Any, Any, Any]):
    """Adds one to a hundred keys for each record."""

    def init(self, context: Any) -> None:
        self.store = context.get_state_store("all")

    def process(self, record: Record[Any, Any]) -> None:
        for key in range(100):
            self.store.put(f"k{key:03}", (self.store.get(f"k{key:03}") or 0) + 1)


def count_everywhere(source: str) -> Topology:
    """A store in which all keys always have the same value."""
    topology = Topology()
    topology.add_source("source", source, key_deserializer=string, value_deserializer=string)
    topology.add_processor("everywhere", Everywhere, "source")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("all"), Serdes.string(), Serdes.long())
    topology.add_state_store(store, "everywhere")
    return topology


class NamesAndTicks(Processor[Any, Any, Any, Any]):
    """Looks names up in a global table, and tells how often a timer has fired."""

    def init(self, context: Any) -> None:
        self._context, self._ticks = context, 0
        self._names = context.get_state_store("names")
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self._tick)

    def _tick(self, timestamp: int) -> None:
        self._ticks += 1
        self._context.forward(Record("ticks", str(self._ticks), timestamp))

    def process(self, record: Record[Any, Any]) -> None:
        found = self._names.get(record.key)
        self._context.forward(record.with_value("nobody" if found is None else found.value))
