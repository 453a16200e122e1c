"""Small topologies that the integration tests run; importable, so that Spark's workers find their functions."""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from penstock import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    ProductionExceptionHandler,
    PunctuationType,
    Record,
    Repartitioned,
    Response,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Topology,
)

string, long = Serdes.string(), Serdes.long()
TEXT: Consumed[str, str] = Consumed(string, string)
BY_TEXT: Grouped[str, str] = Grouped(key_serde=string, value_serde=string)


def pipe(source: str | re.Pattern[str], sink: str, repaired: str | None = None) -> Topology:
    """Values in capitals; the value `boom` fails, as long as there is no file `repaired`."""
    builder = StreamsBuilder()
    builder.stream(source, TEXT).map_values(lambda value: shout(value, repaired)).to(sink, Produced(string, string))
    return builder.build()


def shout(value: str, repaired: str | None = None) -> str:
    """Capitals, or a failure."""
    if value == "boom" and (repaired is None or not Path(repaired).exists()):
        raise ValueError("boom is not allowed here")
    return value.upper()


def repartitioned_and_counted(source: str, copies: str, counts: str) -> Topology:
    """Values behind a repartition `again`, and how often each was there behind a repartition `words`."""
    builder = StreamsBuilder()
    lines = builder.stream(source, TEXT)
    lines.repartition(Repartitioned("again", string, string)).to(copies, Produced(string, string))
    counted = lines.group_by(lambda _, value: value, Grouped("words", string, string)).count()
    counted.to_stream().to(counts, Produced(string, long))
    return builder.build()


def pipe_that_waits(source: str, sink: str, released: str) -> Topology:
    """Values as they are; at the value `wait` the task waits for the file `released`, and says with another that it does."""
    builder = StreamsBuilder()
    builder.stream(source, TEXT).map_values(lambda value: wait_for(value, released)).to(sink, Produced(string, string))
    return builder.build()


def wait_for(value: str, released: str) -> str:
    """The same value, sometimes late."""
    while value == "wait" and not Path(released).exists():
        Path(f"{released}-awaited").touch()
        time.sleep(0.05)
    return value


def count_by_key(source: str, sink: str, **materialized: Any) -> Topology:
    """How often each key has come: one task per partition, no repartition."""
    builder = StreamsBuilder()
    counts = builder.stream(source, TEXT).group_by_key(BY_TEXT).count(Materialized("counts", string, long, **materialized))
    counts.to_stream().to(sink, Produced(string, long))
    return builder.build()


def last_by_new_key(source: str, sink: str) -> Topology:
    """The last value of each key, by a key that is new: through a repartition topic, a store and its changelog."""
    builder = StreamsBuilder()
    by_bytes: Grouped[str, bytes] = Grouped(key_serde=string, value_serde=Serdes.bytes())
    renamed = builder.stream(source, Consumed(string, Serdes.bytes())).select_key(lambda key, value: f"new-{key}")
    last = renamed.group_by_key(by_bytes).reduce(lambda old, new: new, Materialized("last", string, Serdes.bytes()))
    last.to_stream().to(sink, Produced(string, Serdes.bytes()))
    return builder.build()


def slow_count(source: str, sink: str, seconds: float) -> Topology:
    """The same, of records that take their time."""
    builder = StreamsBuilder()
    slow = builder.stream(source, TEXT).map_values(lambda value: slowly(value, seconds))
    counts = slow.group_by_key(BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().to(sink, Produced(string, long))
    return builder.build()


def slowly(value: str, seconds: float) -> str:
    """The same, later."""
    time.sleep(seconds)
    return value


def stuck_count(source: str, sink: str, folder: Path) -> Topology:
    """The same; while there is no file `repaired` in the folder, a record does not come to its end."""
    builder = StreamsBuilder()
    stream = builder.stream(source, TEXT).map_values(partial(stuck, str(folder)))
    counts = stream.group_by_key(BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().to(sink, Produced(string, long))
    return builder.build()


def stuck(folder: str, value: str) -> str:
    """The same, never."""
    if not Path(folder, "repaired").exists():
        time.sleep(3600)
    return value


def count_slowly(source: str, sink: str, folder: Path) -> Topology:
    """The same; while the folder has a file `slow`, the first worker with a record writes its process id to `begun` and waits."""
    builder = StreamsBuilder()
    stream = builder.stream(source, TEXT).peek(partial(_take_a_while, str(folder)))
    counts = stream.group_by_key(BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().to(sink, Produced(string, long))
    return builder.build()


def _take_a_while(folder: str, *_: object) -> None:
    slow, begun, until = Path(folder, "slow"), Path(folder, "begun"), time.monotonic() + 600
    if slow.exists() and not begun.exists():
        begun.write_text(str(os.getpid()))
    while slow.exists() and begun.read_text() == str(os.getpid()) and time.monotonic() < until:
        time.sleep(0.05)


def word_count(source: str, sink: str, time: int | None = None) -> Topology:
    """How often each word has come; `time` is when, whatever the records say."""
    builder = StreamsBuilder()
    consumed = TEXT if time is None else Consumed(string, string, timestamp_extractor=lambda record, partition_time: time)
    words = builder.stream(source, consumed).flat_map_values(str.split).group_by(lambda _, word: word, BY_TEXT)
    words.count(Materialized("counts", string, long)).to_stream().to(sink, Produced(string, long))
    return builder.build()


def counted_and_joined(lines: str, counts: str, orders: str, customers: str, joined: str) -> Topology:
    """How often each word has come, and orders with their customers: the topology of Member.java."""
    builder = StreamsBuilder()
    words = builder.stream(lines, TEXT).flat_map_values(str.split).group_by(lambda _, word: word, BY_TEXT)
    words.count(Materialized("counts", string, long)).to_stream().to(counts, Produced(string, long))
    found = builder.stream(orders, TEXT).join(builder.table(customers, TEXT), _order_for, Joined(string, string, string))
    found.to(joined, Produced(string, string))
    return builder.build()


def _order_for(order: str, customer: str) -> str:
    return f"{order} for {customer}"


def all_that_is_shuffled(suffix: str = "") -> Topology:
    """A count, a plain repartition and an output before them, of one stream; dead letters before a shuffle, of another."""
    builder = StreamsBuilder()
    lines = builder.stream(f"lines{suffix}", TEXT)
    lines.to(f"audit{suffix}", Produced(string, string))
    words = lines.flat_map_values(str.split).group_by(lambda _, word: word, BY_TEXT)
    words.count(Materialized("counts", string, long)).to_stream().to(f"counts{suffix}", Produced(string, long))
    again = lines.select_key(lambda _, line: line).repartition(Repartitioned("again", string, string))
    again.to(f"copies{suffix}", Produced(string, string))
    numbers = builder.stream(f"numbers{suffix}", Consumed(string, long)).select_key(lambda key, _: key)
    numbers.repartition(Repartitioned("numbers", string, long)).to(f"never{suffix}", Produced(string, long))
    return builder.build()


def joined_in_time(left: str, right: str, sink: str) -> Topology:
    """What comes on both sides within a day."""
    builder = StreamsBuilder()
    windows, serdes = JoinWindows(timedelta(days=1), grace=0), StreamJoined(string, string, string)
    both = builder.stream(left, TEXT).join(builder.stream(right, TEXT), lambda a, b: a + b, windows, serdes)
    both.to(sink, Produced(string, string))
    return builder.build()


def numbers(source: str, sink: str, *, grouped: bool) -> Topology:
    """Reads longs: text is a poison record."""
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed(string, long)).map_values(lambda n: n + 1)
    if grouped:
        stream = stream.select_key(lambda k, _: k).repartition(Repartitioned("again", string, long))
    stream.to(sink, Produced(string, long))
    return builder.build()


class Remembering(Processor[str, str, str, str]):
    """Counts values in a store, notes each opening in a file, and hands out totals by the clock if there are new ones."""

    def __init__(self, folder: str, every_ms: int) -> None:
        self._folder = folder
        self._every_ms = every_ms

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.get_state_store("totals")
        with (Path(self._folder) / f"opened-{context.task_id}").open("a") as file:
            file.write("opened\n")
        context.schedule(self._every_ms, PunctuationType.WALL_CLOCK_TIME, self._strike)

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.value, (self._store.get(record.value) or 0) + 1)

    def _strike(self, now: int) -> None:
        with self._store.all() as entries:
            text = ",".join(f"{key}={total}" for key, total in entries)
        self._context.forward(Record(str(self._context.task_id), text, now))


class Supplier:
    """Gives new processors, each told where to note that it was opened."""

    def __init__(self, folder: Path, every_ms: int) -> None:
        self._folder, self._every_ms = str(folder), every_ms

    def __call__(self) -> Remembering:
        return Remembering(self._folder, self._every_ms)


def remembering(source: str, sink: str, folder: Path, *, repartitioned: bool, every_ms: int = 100) -> Topology:
    """A processor with a store and a clock, straight from a topic or behind a repartition."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), string, long))
    stream = builder.stream(source, TEXT)
    if repartitioned:
        stream = stream.select_key(lambda _, v: v).repartition(Repartitioned("by-value", string, string))
    stream.process(Supplier(folder, every_ms), "totals").to(sink, Produced(string, string))
    return builder.build()


def joined(left: str, right: str, sink: str) -> Topology:
    """A join that needs both topics to have the same number of partitions."""
    builder = StreamsBuilder()
    table = builder.table(right, TEXT, Materialized("right", string, string))
    builder.stream(left, TEXT).join(table, lambda a, b: f"{a}+{b}").to(sink, Produced(string, string))
    return builder.build()


class CountingInits(Processor[str, str, str, str]):
    """Passes records on, and notes in a file each time a task of it is opened."""

    def __init__(self, notes: str) -> None:
        self._notes = notes

    def init(self, context: Any) -> None:
        """Note which task is opened."""
        self._context = context
        with Path(self._notes).open("a") as notes:
            notes.write(f"{context.task_id}\n")

    def process(self, record: Record[str, str]) -> None:
        """Pass it on."""
        self._context.forward(record)


def pipe_with_notes(source: str, sink: str, notes: str) -> Topology:
    """Values as they are; the tasks that were opened are in the file."""
    builder = StreamsBuilder()
    builder.stream(source, TEXT).process(partial(CountingInits, notes)).to(sink, Produced(string, string))
    return builder.build()


class GivesUpChangelogs(ProductionExceptionHandler):
    """Goes on without changelog records that are refused, and fails for others."""

    def handle_error(self, context: Any, record: Any, exception: Exception) -> Response:
        """Resume for changelogs."""
        return Response.resume() if record.topic.endswith("-changelog") else Response.fail()
