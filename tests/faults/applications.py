"""The applications that faults are tried on: each with its input and what an undisturbed run gives.

Every expectation holds however the records of different partitions come together, so that what is compared is exact.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from tests.harness.kafka import Message

string, long = Serdes.string(), Serdes.long()
TEXT: Consumed[str, str] = Consumed(string, string)
BY_TEXT: Grouped[str, str] = Grouped(key_serde=string, value_serde=string)
WINDOW = 10_000
PARTITIONS = 3

# Slow enough for a kill to meet a turn at work, whatever moment it comes.
_PACE = 0.0005


def slowly(_key: Any, _value: Any) -> None:
    """Take time."""
    time.sleep(_PACE)


Inputs = Mapping[str, Sequence[Message]]
Results = Mapping[Any, Any]


@dataclass(frozen=True)
class Application:
    """A topology over topics that start with its name; `expected` and `found` are compared under exactly-once,
    `is_complete` under at-least-once."""

    name: str
    build: Callable[[str], Topology]
    inputs: tuple[str, ...]
    make: Callable[[random.Random, int, int], Inputs]
    expected: Callable[[Inputs], Results]
    found: Callable[[Sequence[Message]], Results]
    is_complete: Callable[[Results, Sequence[Message]], bool]
    stores: tuple[str, ...] = ()


# -- stateless: every record once, in order per key --------------------------------------------------------------------


def build_stateless(prefix: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(f"{prefix}-in", TEXT).peek(slowly).map_values(str.upper)
    stream.to(f"{prefix}-out", Produced(string, string))
    return builder.build()


def numbered(rng: random.Random, start: int, count: int) -> Inputs:
    """Records with few keys and values that are all different."""
    return {"in": [Message(f"k{rng.randrange(20)}".encode(), f"v{start + i}".encode(), _now(start + i)) for i in range(count)]}


def upper_by_key(inputs: Inputs) -> Results:
    found: dict[bytes, list[bytes]] = {}
    for message in inputs["in"]:
        found.setdefault(message.key or b"", []).append((message.value or b"").upper())
    return found


def values_by_key(messages: Iterable[Message]) -> Results:
    found: dict[bytes, list[bytes]] = {}
    for message in messages:
        found.setdefault(message.key or b"", []).append(message.value or b"")
    return found


def nothing_lost(expected: Results, messages: Sequence[Message]) -> bool:
    found = values_by_key(messages)
    return all(set(values) <= set(found.get(key, ())) for key, values in expected.items())


# -- word count: 1, 2, 3 … for every word ------------------------------------------------------------------------------


def build_word_count(prefix: str) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(f"{prefix}-in", TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, BY_TEXT).count(Materialized("counts", string, long))
    counts.to_stream().peek(slowly).to(f"{prefix}-out", Produced(string, long))
    return builder.build()


def lines(rng: random.Random, start: int, count: int) -> Inputs:
    def line() -> str:
        return " ".join(f"{rng.choice('abcd')}{rng.randrange(12)}" for _ in range(3))

    return {"in": [Message(str(start + i).encode(), line().encode(), _now(start + i)) for i in range(count)]}


def words_of(inputs: Inputs) -> Counter[str]:
    return Counter(word for message in inputs["in"] for word in (message.value or b"").decode().split())


def count_ups(inputs: Inputs) -> Results:
    return {word.encode(): [n.to_bytes(8, "big") for n in range(1, total + 1)] for word, total in words_of(inputs).items()}


def at_least_the_totals(expected: Results, messages: Sequence[Message]) -> bool:
    found = values_by_key(messages)
    return all(found.get(key) and max(found[key]) >= values[-1] for key, values in expected.items())


# -- windowed count by the input's own key -----------------------------------------------------------------------------


def build_windowed(prefix: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(f"{prefix}-in", TEXT).peek(slowly).group_by_key(BY_TEXT)
    counts = grouped.windowed_by(TimeWindows(WINDOW, grace=86_400_000)).count(Materialized("windows", string, long))
    counts.to_stream(lambda k, _: f"{k.key}@{k.window.start}").to(f"{prefix}-out", Produced(string, long))
    return builder.build()


def window_counts(inputs: Inputs) -> Results:
    totals = Counter(f"{(m.key or b'').decode()}@{m.timestamp // WINDOW * WINDOW}" for m in inputs["in"])
    return {key.encode(): [n.to_bytes(8, "big") for n in range(1, total + 1)] for key, total in totals.items()}


# -- stream-stream join: every pair of the same key, since all are in the window ---------------------------------------


def build_join(prefix: str) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream(f"{prefix}-in", TEXT).peek(slowly), builder.stream(f"{prefix}-right", TEXT)
    windows = JoinWindows(86_400_000, grace=86_400_000)
    joined = left.join(right, lambda a, b: f"{a}+{b}", windows, StreamJoined(string, string, string, store_name="sides"))
    joined.to(f"{prefix}-out", Produced(string, string))
    return builder.build()


def two_sides(rng: random.Random, start: int, count: int) -> Inputs:
    def side(name: str) -> list[Message]:
        indices = range(start, start + count // 2)
        return [Message(f"k{rng.randrange(60)}".encode(), f"{name}{i}".encode(), _now(i)) for i in indices]

    return {"in": side("l"), "right": side("r")}


def pairs(inputs: Inputs) -> Results:
    found: dict[bytes, Counter[bytes]] = {}
    for left in inputs["in"]:
        for right in inputs["right"]:
            if left.key == right.key:
                found.setdefault(left.key or b"", Counter())[(left.value or b"") + b"+" + (right.value or b"")] += 1
    return found


def pairs_found(messages: Iterable[Message]) -> Results:
    found: dict[bytes, Counter[bytes]] = {}
    for message in messages:
        found.setdefault(message.key or b"", Counter())[message.value or b""] += 1
    return found


def all_pairs(expected: Results, messages: Sequence[Message]) -> bool:
    found = pairs_found(messages)
    return all(set(wanted) <= set(found.get(key, ())) for key, wanted in expected.items())


# -- a chain of two stateful steps: every count of a word, added up by its first letter --------------------------------


def build_chain(prefix: str) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(f"{prefix}-in", TEXT).flat_map_values(str.split)
    counts = words.group_by(lambda _, word: word, BY_TEXT).count(Materialized("counts", string, long))
    by_letter = counts.to_stream().group_by(lambda word, _: word[0], Grouped(key_serde=string, value_serde=long))
    sums = by_letter.aggregate(lambda: 0, lambda _, n, total: total + n, Materialized("sums", string, long))
    sums.to_stream().peek(slowly).to(f"{prefix}-out", Produced(string, long))
    return builder.build()


def sums_of_counts(inputs: Inputs) -> Results:
    """For each letter how many updates there are, and the last one: each count of each word is added once."""
    updates, sums = Counter[bytes](), Counter[bytes]()
    for word, total in words_of(inputs).items():
        updates[word[0].encode()] += total
        sums[word[0].encode()] += total * (total + 1) // 2
    return {letter: (updates[letter], sums[letter]) for letter in updates}


def sums_found(messages: Iterable[Message]) -> Results:
    found = values_by_key(messages)
    return {letter: (len(values), int.from_bytes(values[-1], "big")) for letter, values in found.items()}


def at_least_the_sums(expected: Results, messages: Sequence[Message]) -> bool:
    found = sums_found(messages)
    return all(letter in found and found[letter][1] >= total for letter, (_, total) in expected.items())


def _now(index: int) -> int:
    """Times of the last hours, so that nothing is too old to be kept."""
    return _START + index * 10


_START = int(time.time()) // 3600 * 3_600_000 - 3_600_000

APPLICATIONS: dict[str, Application] = {
    app.name: app
    for app in (
        Application("stateless", build_stateless, ("in",), numbered, upper_by_key, values_by_key, nothing_lost),
        Application("word-count", build_word_count, ("in",), lines, count_ups, values_by_key, at_least_the_totals, ("counts",)),
        Application("windowed", build_windowed, ("in",), numbered, window_counts, values_by_key, at_least_the_totals),
        Application("join", build_join, ("in", "right"), two_sides, pairs, pairs_found, all_pairs),
        Application("chain", build_chain, ("in",), lines, sums_of_counts, sums_found, at_least_the_sums, ("counts", "sums")),
    )
}
