"""What is fed to both sides: records as raw bytes, drawn from small pools so that keys and times collide."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Input = dict[str, Any]

# Relative to the highest timestamp so far. Windows, gaps and graces of the scenarios are of the order of 10 ms, so these steps
# fall on, just before and just after every boundary; the long jumps cross the segments of a store (60 s at least).
_STEPS = (
    *([0, 1] * 5),
    *([2, 3, 5, 10, -1, -3] * 3),
    *([4, 6, 7, 8, 11, 15, -2, -4, -5, -6, -8, -10] * 2),
    *(12, 16, 20, 25, 30, 41, -7, -12, -15, -16, -20, -21, -30, -45, -100),
    *(150, 60_000, 70_000, 130_000, -60_000),
)
_HEADERS: tuple[list[list[str]], ...] = (*([[]] * 6), [["h", "31"]], [["drop", "32"], ["h", "33"]], [["h", "34"], ["h", "35"]])


def text(value: str | None) -> bytes | None:
    """A text as StringSerializer writes it."""
    return None if value is None else value.encode()


def long(value: int) -> bytes:
    """A number as LongSerializer writes it."""
    return struct.pack(">q", value)


@dataclass(frozen=True)
class Feed:
    """The keys and values of one topic; a value that appears twice is drawn twice as often."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


_KEYS = (*("a", "b", "c") * 4, "dd", None)
_VALUES = (*("x", "yy", "abc", "b", "cc", "a b") * 2, "cat", "Bee bee", "", "é", None, None)

TEXTS = Feed([text(k) for k in _KEYS], [text(v) for v in _VALUES])
KEYED_TEXTS = Feed([key for key in TEXTS.keys if key is not None], TEXTS.values)
# Foreign keys are first letters of values: the other table is keyed by letters that appear there.
LETTERS = Feed([text(k) for k in ("a", "x", "y", "b", "c", "a", "x", "b")], [text(v) for v in _VALUES])
SHORT = Feed(TEXTS.keys, [text(v) for v in ("x", "x", "y", "z", None)])
ROUGH_LONGS = Feed(
    [text(k) for k in _KEYS], [*(long(n) for n in (0, 1, 2, -5, 2**40, 2**63 - 2)), None, b"", b"short", b"far too long a value"]
)
ROUGH_KEYS = Feed([*(long(n) for n in (1, 2, 2, 3)), None, b"bad", b"\x00" * 9], TEXTS.values)


def histories(feeds: Mapping[str, Feed], negative_times: bool = False) -> st.SearchStrategy[list[Input]]:
    """Lists of inputs over these topics: out of order, late, duplicate, null, with headers, with the wall clock moving."""
    topics = st.sampled_from(sorted(feeds))
    steps = st.sampled_from(_STEPS)

    def records(topic: str) -> st.SearchStrategy[tuple[Any, ...]]:
        feed = feeds[topic]
        return st.tuples(
            st.just(topic), st.sampled_from(feed.keys), st.sampled_from(feed.values), steps, st.sampled_from(_HEADERS)
        )

    events = st.integers(0, 19).flatmap(
        lambda dice: st.tuples(st.sampled_from([1, 5, 10, 25, 1_000])) if dice == 0 else topics.flatmap(records)
    )
    start = st.sampled_from([0, 7, 100, 10_000])
    lists = st.tuples(start, st.lists(events, min_size=8, max_size=36))
    return lists.map(lambda drawn: _placed_in_time(drawn[0], drawn[1], negative_times))


def turns(feeds: Mapping[str, Feed], negative_times: bool, length: int, dice: random.Random) -> list[Input]:
    """The same for two to four turns of about this length; some of them end because the wall clock moves.

    In some, topics alternate, in others one comes after the other.
    """
    events: list[tuple[Any, ...]] = []
    for _ in range(dice.randint(2, 4)):
        topics = dice.choices(sorted(feeds), k=dice.randint(length // 2, length * 3 // 2))
        for topic in dice.choice([topics, sorted(topics)]):
            key, value = dice.choice(feeds[topic].keys), dice.choice(feeds[topic].values)
            events.append((topic, key, value, dice.choice(_STEPS), dice.choice(_HEADERS)))
        events.append((dice.choice([None, None, None, 5, 1_000]),))
    return _placed_in_time(dice.choice([0, 7, 100, 10_000]), events, negative_times)


def _placed_in_time(now: int, events: list[tuple[Any, ...]], negative_times: bool) -> list[Input]:
    inputs: list[Input] = []
    for event in events:
        if len(event) == 1:
            inputs.append({"cut": True} if event[0] is None else {"advance_wall_clock": event[0]})
            continue
        topic, key, value, step, headers = event
        timestamp = -1 if negative_times and step == -3 else max(0, now + step)
        now = max(now, timestamp)
        inputs.append(
            {
                "topic": topic,
                "key": None if key is None else key.hex(),
                "value": None if value is None else value.hex(),
                "timestamp": timestamp,
                "headers": headers,
            }
        )
    return inputs
