"""The applications of the soak: a topology each, input without end, and its closed truth.

Records come in batches; time goes on ten milliseconds a record and is a batch apart at most. What waits for time (grace) waits
for ten batches, so that a truth does not depend on which of two topics is read first.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from penstock.hashing import default_partition
from tests.harness.kafka import Message
from tests.soak.truth import Counting, Latest, Listed, Parts, Result, Steps, Truth

PARTITIONS = 3
string, long = Serdes.string(), Serdes.long()
TEXT: Consumed[str, str] = Consumed(string, string)
BY_TEXT: Grouped[str, str] = Grouped(key_serde=string, value_serde=string)
TEXTS, NUMBERS = Produced(string, string), Produced(string, long)
WINDOW, GAP, SESSION_GRACE, REACH, GRACE = 10_000, 300, 2_000, 2_000, 12_000
_BATCH_TIME = 1_200
_START = int(time.time()) // 3600 * 3_600_000 - 7_200_000

Peek = Callable[[Any, Any], None]
Inputs = Mapping[str, Sequence[Message]]


@dataclass(frozen=True)
class Application:
    """A topology over topics that start with its name.

    `make(chance, start, count)` gives the records from `start` on; `first` those that are there before it starts. `stores` are
    those that can be compared with their changelogs, key by key.
    """

    name: str
    build: Callable[[str, Peek], Topology]
    inputs: tuple[str, ...]
    make: Callable[[random.Random, int, int], Inputs]
    truth: Callable[[Inputs, int], Truth]
    stores: tuple[str, ...] = ()
    first: Callable[[], Inputs] = dict


def at(index: int) -> int:
    """The time of a record: of the last hours, so that nothing is too old to be kept."""
    return _START + index * 10


def text(key: str, value: str | None, index: int) -> Message:
    return Message(key.encode(), None if value is None else value.encode(), at(index))


def _by_key(messages: Iterable[Message]) -> dict[bytes, list[Message]]:
    found: dict[bytes, list[Message]] = defaultdict(list)
    for message in messages:
        found[message.key or b""].append(message)
    return found


def _times(messages: Iterable[Message], partitions: int) -> dict[int, int]:
    """The stream time of each partition."""
    found: dict[int, int] = defaultdict(int)
    for message in messages:
        partition = default_partition(message.key or b"", partitions)
        found[partition] = max(found[partition], message.timestamp)
    return found


def numbered(chance: random.Random, start: int, count: int) -> Inputs:
    """Few keys, values that are all different."""
    return {"in": [text(f"k{chance.randrange(20)}", f"v{i}", i) for i in range(start, start + count)]}


# -- stateless: every record once, in order per key --------------------------------------------------------------------


def build_stateless(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    builder.stream(f"{prefix}-in", TEXT).peek(peek).map_values(str.upper).to(f"{prefix}-out", TEXTS)
    return builder.build()


def upper(inputs: Inputs, _: int) -> Truth:
    return {
        key: Listed([Result((m.value or b"").upper(), m.timestamp) for m in messages])
        for key, messages in _by_key(inputs["in"]).items()
    }


def upper_in_any_order(inputs: Inputs, _: int) -> Truth:
    return {
        key: Listed([Result((m.value or b"").upper(), m.timestamp) for m in messages], ordered=False)
        for key, messages in _by_key(inputs["in"]).items()
    }


# -- word count: 1, 2, 3 … for every word, across a repartition --------------------------------------------------------


def build_word_count(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(f"{prefix}-in", TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().peek(peek).to(f"{prefix}-out", NUMBERS)
    return builder.build()


def lines(chance: random.Random, start: int, count: int) -> Inputs:
    def line() -> str:
        return " ".join(f"{chance.choice('abcd')}{chance.randrange(12)}" for _ in range(3))

    return {"in": [text(str(i), line(), i) for i in range(start, start + count)]}


def _words(inputs: Inputs) -> tuple[Counter[str], dict[str, int]]:
    """How often each word came, and when last."""
    totals, last = Counter[str](), dict[str, int]()
    for message in inputs["in"]:
        for word in (message.value or b"").decode().split():
            totals[word] += 1
            last[word] = max(last.get(word, 0), message.timestamp)
    return totals, last


def word_counts(inputs: Inputs, _: int) -> Truth:
    totals, last = _words(inputs)
    return {word.encode(): Counting(total, last[word]) for word, total in totals.items()}


# -- a chain of two repartitions: every count of a word, added up by its first letter ----------------------------------


def build_chain(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(f"{prefix}-in", TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, BY_TEXT).count(Materialized("counts", string, long))
    by_letter = counts.to_stream().group_by(lambda word, _: word[0], Grouped(key_serde=string, value_serde=long))
    sums = by_letter.aggregate(lambda: 0, lambda _, n, total: total + n, Materialized("sums", string, long))
    sums.to_stream().peek(peek).to(f"{prefix}-out", NUMBERS)
    return builder.build()


def sums_of_counts(inputs: Inputs, _: int) -> Truth:
    totals, times = _words(inputs)
    updates, sums, last = Counter[str](), Counter[str](), dict[str, int]()
    for word, total in totals.items():
        updates[word[0]] += total
        sums[word[0]] += total * (total + 1) // 2
        last[word[0]] = max(last.get(word[0], 0), times[word])
    return {letter.encode(): Steps(updates[letter], sums[letter], last_time=last[letter]) for letter in updates}


# -- windowed count by the input's own key -----------------------------------------------------------------------------


def build_windowed(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(f"{prefix}-in", TEXT).peek(peek).group_by_key(BY_TEXT)
    counts = grouped.windowed_by(TimeWindows(WINDOW, grace=6 * WINDOW)).count(Materialized("windows", string, long))
    counts.to_stream(lambda k, _: f"{k.key}@{k.window.start}").to(f"{prefix}-out", NUMBERS)
    return builder.build()


def window_counts(inputs: Inputs, _: int) -> Truth:
    times: dict[bytes, list[int]] = defaultdict(list)
    for m in inputs["in"]:
        times[f"{(m.key or b'').decode()}@{m.timestamp // WINDOW * WINDOW}".encode()].append(m.timestamp)
    return {key: Counting(len(of), times=of) for key, of in times.items()}


# -- sessions, each told once when it is over --------------------------------------------------------------------------


def build_sessions(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(f"{prefix}-in", TEXT).peek(peek).group_by_key(BY_TEXT)
    counts = grouped.windowed_by(SessionWindows(GAP, grace=SESSION_GRACE)).count(Materialized("sessions", string, long))
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    closed.to_stream(lambda k, _: f"{k.key}@{k.window.start}-{k.window.end}").to(f"{prefix}-out", NUMBERS)
    return builder.build()


def unordered(chance: random.Random, start: int, count: int) -> Inputs:
    """Few keys; times that go back by less than the grace."""
    return {"in": [text(f"k{chance.randrange(20)}", f"v{i}", i - chance.randrange(40)) for i in range(start, start + count)]}


def closed_sessions(inputs: Inputs, partitions: int) -> Truth:
    stream_times, truth = _times(inputs["in"], partitions), dict[bytes, Counting]()
    for key, messages in _by_key(inputs["in"]).items():
        now = stream_times[default_partition(key, partitions)]
        sessions: list[list[int]] = []
        for moment in sorted(message.timestamp for message in messages):
            if sessions and moment - sessions[-1][-1] <= GAP:
                sessions[-1].append(moment)
            else:
                sessions.append([moment])
        for times in sessions:
            if times[-1] + GAP + SESSION_GRACE <= now:
                name = f"{key.decode()}@{times[0]}-{times[-1]}".encode()
                truth[name] = Counting(len(times), times[-1], only_last=True)
    return truth


# -- stream-stream joins: pairs of the same batch, and what has found no partner ---------------------------------------


def _joined(prefix: str, peek: Peek) -> tuple[StreamsBuilder, Any, Any, JoinWindows, StreamJoined[Any, Any, Any]]:
    builder = StreamsBuilder()
    left, right = builder.stream(f"{prefix}-in", TEXT).peek(peek), builder.stream(f"{prefix}-right", TEXT)
    joined: StreamJoined[Any, Any, Any] = StreamJoined(string, string, string, store_name="sides")
    return builder, left, right, JoinWindows(REACH, grace=GRACE), joined


def build_join(prefix: str, peek: Peek) -> Topology:
    builder, left, right, windows, joined = _joined(prefix, peek)
    left.join(right, lambda a, b: f"{a}+{b}", windows, joined).to(f"{prefix}-out", TEXTS)
    return builder.build()


def build_left_join(prefix: str, peek: Peek) -> Topology:
    builder, left, right, windows, joined = _joined(prefix, peek)
    left.left_join(right, lambda a, b: f"{a}+{b}", windows, joined).to(f"{prefix}-out", TEXTS)
    return builder.build()


def two_sides(chance: random.Random, start: int, count: int) -> Inputs:
    """Each batch has keys of its own; half of those on the left have no partner on the right."""
    indices = range(start, start + count, 2)
    return {
        "in": [text(f"b{start}k{chance.randrange(16)}", f"l{i}", i) for i in indices],
        "right": [text(f"b{start}k{chance.randrange(8)}", f"r{i}", i + 1) for i in indices],
    }


def pairs(inputs: Inputs, _: int) -> Truth:
    found: dict[bytes, list[Result]] = defaultdict(list)
    rights = _by_key(inputs["right"])
    for left in inputs["in"]:
        for right in rights.get(left.key or b"", ()):
            if abs(left.timestamp - right.timestamp) <= REACH:
                value = (left.value or b"") + b"+" + (right.value or b"")
                found[left.key or b""].append(Result(value, max(left.timestamp, right.timestamp)))
    return {key: Listed(results, ordered=False) for key, results in found.items()}


def pairs_and_lonely(inputs: Inputs, partitions: int) -> Truth:
    rights = _by_key(inputs["right"])
    stream_times = _times([*inputs["in"], *inputs["right"]], partitions)
    found: dict[bytes, list[Result]] = defaultdict(list)
    early: dict[bytes, list[Result]] = defaultdict(list)
    for key, rule in pairs(inputs, partitions).items():
        assert isinstance(rule, Listed)
        found[key] += rule.results
    for left in inputs["in"]:
        key = left.key or b""
        partners = [r for r in rights.get(key, ()) if abs(left.timestamp - r.timestamp) <= REACH]
        waited = stream_times[default_partition(key, partitions)] - left.timestamp
        if not partners and waited > REACH:
            # As in Java, what is due is looked for again only when the newest that waited at the last look is due. And where the
            # other side was read so far ahead that the window is over, there is nothing to wait for: it comes out at once.
            side = found if waited > 2 * (REACH + GRACE) + _BATCH_TIME else early
            side[key].append(Result((left.value or b"") + b"+None", left.timestamp))
    return {key: Listed(found[key], ordered=False, optional=early[key]) for key in {*found, *early}}


# -- foreign-key join of two tables ------------------------------------------------------------------------------------


def build_foreign_key(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    orders = builder.table(f"{prefix}-in", TEXT, Materialized("orders", string, string))
    customers = builder.table(f"{prefix}-right", TEXT, Materialized("customers", string, string))
    joined: Any = orders.join(
        customers,
        lambda order, customer: f"{order}+{customer}",
        foreign_key=lambda order: order.split(":")[0],
        materialized=Materialized("joined", string, string),
    )
    joined.to_stream().peek(peek).to(f"{prefix}-out", TEXTS)
    return builder.build()


def orders(chance: random.Random, start: int, count: int) -> Inputs:
    """Orders of customers, changed and deleted; a customer of a batch changes."""

    def order(i: int) -> Message:
        return text(f"o{chance.randrange(50)}", f"c{chance.randrange(10)}:{i}" if chance.random() < 0.9 else None, i)

    changed = text(f"c{chance.randrange(10)}", f"#{start + 1}", start)
    return {"right": [changed], "in": [order(i) for i in range(start, start + count)]}


def first_customers() -> Inputs:
    return {"right": [text(f"c{n}", "#0", 0) for n in range(10)]}


def orders_with_customers(inputs: Inputs, _: int) -> Truth:
    customers = {key: messages[-1].value or b"" for key, messages in _by_key(inputs["right"]).items()}
    versions = {(m.key, m.value) for m in inputs["right"]}
    truth: dict[bytes, Latest] = {}
    for key, messages in _by_key(inputs["in"]).items():
        placed = {m.value for m in messages}

        def rank(value: bytes, placed: set[bytes | None] = placed) -> tuple[int, ...] | None:
            order, _, version = value.partition(b"+")
            customer, _, number = order.partition(b":")
            return (int(number), int(version[1:])) if order in placed and (customer, version) in versions else None

        last = messages[-1].value
        truth[key] = Latest(None if last is None else last + b"+" + customers[last.partition(b":")[0]], rank)
    return truth


# -- a processor with timers of both kinds: whatever is counted is handed out once -------------------------------------


class HandsOut(Processor[str, str, str, int]):
    """Counts in a store, and hands out and forgets what it has counted whenever one of its timers strikes."""

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.get_state_store("pending")
        context.schedule(1_000, PunctuationType.STREAM_TIME, self._strike)
        context.schedule(700, PunctuationType.WALL_CLOCK_TIME, self._strike)

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, (self._store.get(record.key) or 0) + 1)

    def _strike(self, now: int) -> None:
        with self._store.all() as entries:
            pending = list(entries)
        for key, count in pending:
            self._context.forward(Record(key, count, now))
            self._store.delete(key)


def build_timers(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("pending"), string, long))
    stream = builder.stream(f"{prefix}-in", TEXT).peek(peek)
    stream.process(HandsOut, "pending").to(f"{prefix}-out", NUMBERS)
    return builder.build()


def parts(inputs: Inputs, _: int) -> Truth:
    return {key: Parts(len(messages)) for key, messages in _by_key(inputs["in"]).items()}


# -- two streams aggregated into one table -----------------------------------------------------------------------------

_RIGHTS = 1_000_000


def build_cogroup(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream(f"{prefix}-in", TEXT).group_by_key(BY_TEXT)
    right = builder.stream(f"{prefix}-right", TEXT).group_by_key(BY_TEXT)
    both: Any = left.cogroup(lambda _, value, total: total + 1).cogroup(right, lambda _, value, total: total + _RIGHTS)
    totals = both.aggregate(lambda: 0, Materialized("totals", string, long))
    totals.to_stream().peek(peek).to(f"{prefix}-out", NUMBERS)
    return builder.build()


def two_streams(chance: random.Random, start: int, count: int) -> Inputs:
    indices = range(start, start + count, 2)
    return {
        "in": [text(f"k{chance.randrange(20)}", "l", i) for i in indices],
        "right": [text(f"k{chance.randrange(20)}", "r", i + 1) for i in indices],
    }


def both_counted(inputs: Inputs, _: int) -> Truth:
    lefts, rights = _by_key(inputs["in"]), _by_key(inputs["right"])
    truth = {}
    for key in {*lefts, *rights}:
        left, right = lefts.get(key, []), rights.get(key, [])
        last = max(message.timestamp for message in (*left, *right))
        truth[key] = Steps(len(left) + len(right), len(left) + _RIGHTS * len(right), frozenset({1, _RIGHTS}), last)
    return truth


# -- a global table that changes under way: every record finds some version of its entry -------------------------------


def build_global(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    countries = builder.global_table(f"{prefix}-right", TEXT, Materialized("countries", string, string))
    stream = builder.stream(f"{prefix}-in", TEXT).peek(peek)
    joined: Any = stream.join(countries, lambda _, value: value.split(":")[1], lambda value, country: f"{value}+{country}")
    joined.to(f"{prefix}-out", TEXTS)
    return builder.build()


def travellers(chance: random.Random, start: int, count: int) -> Inputs:
    def traveller(i: int) -> Message:
        return text(f"k{chance.randrange(20)}", f"v{i}:c{chance.randrange(5)}", i)

    country = f"c{chance.randrange(5)}"
    return {
        "right": [text(country, f"{country}#{start + 1}", start)],
        "in": [traveller(i) for i in range(start, start + count)],
    }


def first_countries() -> Inputs:
    return {"right": [text(f"c{n}", f"c{n}#0", 0) for n in range(5)]}


def with_a_country(inputs: Inputs, _: int) -> Truth:
    versions = {m.value or b"" for m in inputs["right"]}

    def view(value: bytes | None) -> bytes | None:
        traveller, _, country = (value or b"").partition(b"+")
        right = country in versions and traveller.endswith(b":" + country.partition(b"#")[0])
        return traveller if right else value

    return {
        key: Listed([Result(m.value, m.timestamp) for m in messages], view=view)
        for key, messages in _by_key(inputs["in"]).items()
    }


# -- a table as it was: every record finds the version of its own time -------------------------------------------------

_HELD_BACK = 5 * _BATCH_TIME


def build_versioned(prefix: str, peek: Peek) -> Topology:
    builder = StreamsBuilder()
    versions = Stores.persistent_versioned_key_value_store("versions", 3_600_000)
    table = builder.table(f"{prefix}-right", TEXT, Materialized(key_serde=string, value_serde=string, supplier=versions))
    stream = builder.stream(f"{prefix}-in", TEXT)
    joined: Joined[Any, Any, Any] = Joined(string, string, string, name="as-of", grace_period=_HELD_BACK)
    found: Any = stream.join(table, lambda a, b: f"{a}+{b}", joined)
    found.peek(peek).to(f"{prefix}-out", TEXTS)
    return builder.build()


def prices(chance: random.Random, start: int, count: int) -> Inputs:
    return {
        "right": [text(f"k{chance.randrange(20)}", f"t{i}", i) for i in range(start, start + count, 6)],
        "in": [text(f"k{chance.randrange(20)}", f"v{i}", i) for i in range(start + 1, start + count + 1, 2)],
    }


def first_prices() -> Inputs:
    return {"right": [text(f"k{n}", "t-first", -1_000) for n in range(20)]}


def as_of_their_time(inputs: Inputs, partitions: int) -> Truth:
    stream_times, table = _times(inputs["in"], partitions), _by_key(inputs["right"])
    truth = {}
    for key, messages in _by_key(inputs["in"]).items():
        versions = sorted((m.timestamp, m.value or b"") for m in table[key])
        times = [moment for moment, _ in versions]
        due = [m for m in messages if m.timestamp <= stream_times[default_partition(key, partitions)] - _HELD_BACK]
        results = [Result((m.value or b"") + b"+" + versions[bisect_right(times, m.timestamp) - 1][1], m.timestamp) for m in due]
        if results:
            truth[key] = Listed(results)
    return truth


APPLICATIONS: dict[str, Application] = {
    app.name: app
    for app in (
        Application("stateless", build_stateless, ("in",), numbered, upper),
        Application("word-count", build_word_count, ("in",), lines, word_counts, ("counts",)),
        Application("windowed", build_windowed, ("in",), numbered, window_counts),
        Application("join", build_join, ("in", "right"), two_sides, pairs),
        Application("chain", build_chain, ("in",), lines, sums_of_counts, ("counts", "sums")),
        Application("sessions", build_sessions, ("in",), unordered, closed_sessions),
        Application("left-join", build_left_join, ("in", "right"), two_sides, pairs_and_lonely),
        Application(
            "foreign-key", build_foreign_key, ("right", "in"), orders, orders_with_customers, ("joined",), first_customers
        ),
        Application("timers", build_timers, ("in",), numbered, parts),
        Application("cogroup", build_cogroup, ("in", "right"), two_streams, both_counted, ("totals",)),
        Application("global", build_global, ("right", "in"), travellers, with_a_country, (), first_countries),
        Application("versioned", build_versioned, ("right", "in"), prices, as_of_their_time, (), first_prices),
        Application("growing", build_stateless, ("in",), numbered, upper_in_any_order),
    )
}
