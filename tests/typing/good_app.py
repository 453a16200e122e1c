"""A well-typed application: mypy in strict mode finds nothing, and the types are as the comments say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_type

from penstock.client.kafka_streams import KafkaStreams
from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.global_ktable import GlobalKTable
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.dsl.options import Branched, Consumed, Grouped, Joined, Materialized, Produced, StreamJoined, TableJoined
from penstock.processor import FixedKeyProcessor, Processor, ValueTransformerWithKey
from penstock.record import FixedKeyRecord, Record
from penstock.runtime.queries.parameters import QueryableStoreTypes, StoreQueryParameters
from penstock.runtime.queries.views import ReadOnlyKeyValueStore, ReadOnlyWindowStore
from penstock.serdes.serde import Serdes
from penstock.state.store import KeyValueStore, SessionStore, ValueAndTimestamp, WindowStore
from penstock.testing.input_topic import TestInputTopic
from penstock.testing.output_topic import TestOutputTopic
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Windowed

text, long = Serdes.string(), Serdes.long()
builder = StreamsBuilder()

lines = builder.stream("lines", Consumed(text, text))
assert_type(lines, KStream[str, str])
assert_type(builder.stream("anything"), KStream[Any, Any])
assert_type(builder.stream("keyed", Consumed(key_serde=text)), KStream[str, Any])

assert_type(lines.filter(lambda key, line: len(line) > 3), KStream[str, str])
assert_type(lines.map_values(lambda line: len(line)), KStream[str, int])
assert_type(lines.map_values(lambda key, line: len(key) + len(line), with_key=True), KStream[str, int])
assert_type(lines.map_values(len), KStream[str, int])
assert_type(lines.flat_map_values(str.split), KStream[str, str])
assert_type(lines.map(lambda key, line: (len(key), line.encode())), KStream[int, bytes])
assert_type(lines.flat_map(lambda key, line: [(len(key), word) for word in line.split()]), KStream[int, str])
assert_type(lines.select_key(lambda key, line: len(line)), KStream[int, str])
assert_type(lines.merge(lines), KStream[str, str])
lines.peek(lambda key, line: print(key, line)).to("out", Produced(text, text))
lines.to(lambda key, line, context: f"{line}-{context.topic}")
lines.split().branch(lambda key, line: line == key, Branched("same")).default_branch()

words = lines.flat_map_values(str.split).group_by(lambda key, word: word, Grouped(key_serde=text, value_serde=text))
counts = words.count(Materialized("counts"))
assert_type(counts, KTable[str, int])
assert_type(words.reduce(lambda so_far, word: so_far + word), KTable[str, str])
assert_type(words.aggregate(lambda: 0, lambda key, word, total: total + len(word)), KTable[str, int])
assert_type(words.windowed_by(TimeWindows(10, grace=0)).count(), KTable[Windowed[str], int])
assert_type(words.windowed_by(SlidingWindows(10, grace=0)).reduce(lambda a, b: a + b), KTable[Windowed[str], str])
sessions = words.windowed_by(SessionWindows(10, grace=0))
assert_type(
    sessions.aggregate(lambda: 0, lambda key, word, n: n + 1, lambda key, a, b: a + b, Materialized("sessions", text, long)),
    KTable[Windowed[str], int],
)
assert_type(counts.to_stream(), KStream[str, int])
assert_type(counts.to_stream(lambda word, count: count), KStream[int, int])
assert_type(counts.filter(lambda word, count: count > 1), KTable[str, int])
assert_type(counts.map_values(lambda count: str(count)), KTable[str, str])
grouped = counts.group_by(lambda word, count: (count, word))
assert_type(grouped.count(), KTable[int, int])
assert_type(
    grouped.aggregate(lambda: "", lambda key, word, a: a + word, lambda key, word, a: a, Materialized("by-count", long, text)),
    KTable[int, str],
)

users = builder.table("users", Consumed(text, long))
assert_type(users, KTable[str, int])
assert_type(lines.join(users, lambda line, user: (line, user)), KStream[str, tuple[str, int]])
assert_type(lines.left_join(users, lambda line, user: user, Joined(text, text, long)), KStream[str, int | None])
assert_type(lines.join(users, lambda key, line, user: key, with_key=True), KStream[str, str])
assert_type(
    lines.outer_join(lines, lambda a, b: (a or "") + (b or ""), JoinWindows(5, grace=0), StreamJoined(text, text, text)),
    KStream[str, str],
)
assert_type(users.join(counts, lambda user, count: user + count), KTable[str, int])
assert_type(users.outer_join(counts, lambda user, count: (user or 0) + (count or 0)), KTable[str, int])
regions = builder.table("regions", Consumed(long, text))
assert_type(users.join(regions, lambda user, region: region, foreign_key=lambda user: user + 1), KTable[str, str])
assert_type(
    users.left_join(regions, lambda user, region: region, foreign_key=lambda user: user, table_joined=TableJoined("fk")),
    KTable[str, str | None],
)
places = builder.global_table("places", Consumed(long, text))
assert_type(places, GlobalKTable[int, str])
assert_type(lines.join(places, lambda key, line: len(line), lambda line, place: line + place), KStream[str, str])


class Lengths(Processor[str, str, str, int]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(len(record.value)))


class Shout(FixedKeyProcessor[str, str, str]):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.with_value(record.value.upper()))


class Text(ValueTransformerWithKey[str, int, str]):
    def transform(self, key: str, value: int) -> str:
        return f"{key}: {value}"


assert_type(lines.process(Lengths), KStream[str, int])
assert_type(lines.process_values(Shout), KStream[str, str])
assert_type(users.transform_values(Text), KTable[str, str])


@dataclass
class Order:
    """A type of the user's own."""

    number: int


assert_type(builder.stream("orders", Consumed(str, Order)), KStream[str, Order])
assert_type(builder.table("totals", Consumed(str, int), Materialized("totals", str, int)), KTable[str, int])
lines.to("typed", Produced(str, str))


def ends(driver: TopologyTestDriver, named: Materialized[str, int]) -> None:
    """The ends of a test keep the types of their serdes."""
    assert_type(driver.create_input_topic("orders", text, long), TestInputTopic[str, int])
    assert_type(driver.create_input_topic("orders", str, Order), TestInputTopic[str, Order])
    assert_type(driver.create_input_topic("orders", text.serializer, long.serializer), TestInputTopic[Any, Any])
    totals = driver.create_output_topic("totals", text, long)
    assert_type(totals, TestOutputTopic[str, int])
    assert_type(totals.read_key_value(), tuple[str, int])
    assert_type(totals.read_key_values_to_map(), dict[str, int])
    assert_type(driver.get_key_value_store(named), KeyValueStore[str, int])
    assert_type(driver.get_key_value_store(named).get("a"), int | None)
    assert_type(driver.get_timestamped_key_value_store(named), KeyValueStore[str, ValueAndTimestamp[int]])
    assert_type(driver.get_window_store(named), WindowStore[str, int])
    assert_type(driver.get_session_store(named), SessionStore[str, int])
    assert_type(driver.get_key_value_store("totals"), KeyValueStore[Any, Any])
    assert_type(driver.get_key_value_store(named)["a"], int)
    assert_type(list(driver.get_key_value_store(named).items()), list[tuple[str, int]])


assert_type(lines.split().branch(lambda key, line: line.isupper()).default_branch(), dict[str, KStream[str, str]])
assert_type(lines.split().branch(lambda key, line: line.isupper()).no_default_branch(), dict[str, KStream[str, str]])


def reads(streams: KafkaStreams, named: Materialized[str, int]) -> None:
    """A view of a running application has the types of the `Materialized`, or of the kind of store."""
    assert_type(streams.store(named), ReadOnlyKeyValueStore[str, int])
    assert_type(streams.store(named)["a"], int)
    assert_type(streams.store(named).get("a"), int | None)
    assert_type(streams.store("counts"), Any)
    windows = streams.store(StoreQueryParameters("windows", QueryableStoreTypes.window_store(), partition=1))
    assert_type(windows, ReadOnlyWindowStore[Any, Any])
