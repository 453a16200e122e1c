"""A behaviour, written once: a topology, what goes in, what must come out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock import Serdes, Topology

# Recent, so that no retention deletes anything, and a multiple of an hour: windows start where they would at zero.
BASE = int(time.time()) // 3600 * 3_600_000 - 7_200_000

string = Serdes.string()
long = Serdes.long()

Names = Callable[[str], str]


class In(NamedTuple):
    """A record that goes in; `at` counts from the case's start of time."""

    topic: str
    key: Any
    value: Any
    at: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Out(NamedTuple):
    """A record that comes out; `at` None for a time that is the wall clock's, headers None where they do not matter."""

    key: Any
    value: Any
    at: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


@dataclass(frozen=True)
class Case:
    """`build(names)` gets a function that gives topics their real names. `final` compares the last value of each key only,
    for results whose intermediate steps depend on timing in Kafka Streams too."""

    name: str
    build: Callable[[Names], Topology]
    inputs: Sequence[In]
    expected: Mapping[str, Sequence[Out]]
    serdes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    partitions: int = 2
    config: Mapping[str, Any] = field(default_factory=dict)
    final: bool = False
    wall_clock_ms: int = 0
    compression: str = "none"
    guarantees: tuple[str, ...] = ("exactly_once_v2",)
    global_topics: tuple[str, ...] = ()
    only_on_spark: Mapping[str, Any] = field(default_factory=dict)

    def serdes_of(self, topic: str) -> tuple[Any, Any]:
        """Key and value serde of a topic; text where none is given."""
        return self.serdes.get(topic, (string, string))

    @property
    def input_topics(self) -> list[str]:
        """The topics that are fed, in the order they are met."""
        return list(dict.fromkeys(record.topic for record in self.inputs))


CASES: dict[str, Case] = {}


def case(name: str, **fields: Any) -> Callable[[Callable[[Names], Topology]], Callable[[Names], Topology]]:
    """Register a case by the function that builds its topology."""

    def register(build: Callable[[Names], Topology]) -> Callable[[Names], Topology]:
        CASES[name] = Case(name, build, **fields)
        return build

    return register


def ins(topic: str, *records: tuple[Any, ...]) -> list[In]:
    """Records of one topic: (key, value, at)."""
    return [In(topic, *record) for record in records]


def by_time(*parts: Iterable[In]) -> list[In]:
    """Records of several topics in the order of their times."""
    return sorted((record for part in parts for record in part), key=lambda record: record.at)


def outs(*records: tuple[Any, ...]) -> list[Out]:
    """Records that come out: (key, value, at)."""
    return [Out(*record) for record in records]
