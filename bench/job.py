"""What a job of the bench is: feed once, run each variant on each side in every round, and tell its rows."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bench.application import SIDES, Application, Side, Spec
from bench.load import create_topic, delete_topics

Measures = dict[str, float]
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


@dataclass(frozen=True)
class Run:
    """One run of one variant on one side."""

    variant: str
    side: str
    round: int
    measures: Measures


@dataclass(frozen=True)
class Row:
    """A line of the table: both sides, their ratio, and where it should be.

    `ratio` is penstock to Kafka Streams, as the goal is put: of throughputs where `goal_is` is "at least", of seconds or bytes
    where it is "at most".
    """

    label: str
    unit: str
    java: float | None
    penstock: float
    ratio: float | None = None
    goal: float | None = None
    goal_is: Literal["at least", "at most"] = "at least"
    headline: bool = False  # goes into the summary and the plot
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def times_better(self) -> float | None:
        """How many times better than Kafka Streams, whatever way the ratio is put."""
        return self._better(self.ratio)

    @property
    def goal_times_better(self) -> float | None:
        return self._better(self.goal)

    @property
    def reached(self) -> bool | None:
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio >= self.goal if self.goal_is == "at least" else self.ratio <= self.goal

    def _better(self, ratio: float | None) -> float | None:
        return ratio if ratio is None or self.goal_is == "at least" else 1 / ratio if ratio else None


@dataclass(frozen=True)
class Bench:
    """Where and how large everything runs."""

    bootstrap: str
    scale: float = 1.0
    quick: bool = False
    only: frozenset[str] = frozenset()  # the lines of job 5 or 9 to take; empty: all

    def scaled(self, number: int, at_least: int = 1) -> int:
        return max(at_least, round(number * self.scale))


class Job(ABC):
    """A job; the runner calls `feed` once, then `run_java` and `run_penstock` interleaved, then `rows`."""

    number: ClassVar[int]
    name: ClassVar[str]
    title: ClassVar[str]
    partitions: ClassVar[int] = 4
    max_rounds: ClassVar[int] = 100  # fewer where one round is long or tells as much as three

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.notes: list[str] = []
        self.observe: Callable[[Application], AbstractContextManager[object]] = lambda _: nullcontext()
        self.extra_settings: dict[str, str] = {}

    @abstractmethod
    def feed(self) -> None:
        """Write the input."""

    @abstractmethod
    def variants(self) -> list[str]:
        """What is run in each round, on both sides."""

    def sides(self, variant: str) -> tuple[Side, ...]:
        """Who runs this variant."""
        return SIDES

    @abstractmethod
    def run(self, side: Side, variant: str) -> Measures:
        """Run once and measure."""

    @abstractmethod
    def rows(self, runs: list[Run]) -> list[Row]:
        """The table."""

    def run_java(self, variant: str) -> Measures:
        return self.run("java", variant)

    def run_penstock(self, variant: str) -> Measures:
        return self.run("penstock", variant)

    # -- for the jobs --------------------------------------------------------------------------------------------------

    @contextmanager
    def application(
        self,
        side: Side,
        topology: str,
        source: str,
        other: str = "-",
        partitions: int | None = None,
        prepare: Callable[[str], None] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[Application, Spec]]:
        """A fresh application with an output topic and a state folder of its own; all of it is gone afterwards.

        `prepare` is given its id before it starts.
        """
        name = f"{side}-{topology}-{time.time_ns()}"
        sink, folder = f"{name}-out", tempfile.mkdtemp(prefix="bench-state-")
        create_topic(self.bench.bootstrap, sink, partitions or self.partitions)
        if prepare is not None:
            prepare(name)
        spec = Spec(
            topology, name, self.bench.bootstrap, folder, source, sink, other, {**(settings or {}), **self.extra_settings}
        )
        try:
            with Application(side, spec) as app, self.observe(app):
                yield app, spec
            delete_topics(self.bench.bootstrap, name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def medians(runs: list[Run], variant: str, measure: str) -> tuple[float | None, float, float | None]:
    """Medians of both sides, and the median over the rounds of penstock's value divided by Java's."""
    by_side: dict[str, dict[int, float]] = {"java": {}, "penstock": {}}
    for run in runs:
        if run.variant == variant and measure in run.measures:
            by_side[run.side][run.round] = run.measures[measure]
    java, ours = by_side["java"], by_side["penstock"]
    if not ours:
        raise ValueError(f"penstock has not run {variant}")
    ratios = [ours[n] / java[n] for n in ours if java.get(n)]
    return (
        statistics.median(java.values()) if java else None,
        statistics.median(ours.values()),
        statistics.median(ratios) if ratios else None,
    )


def time_row(runs: list[Run], variant: str, measure: str, label: str, goal: float | None = None, **more: Any) -> Row:
    """A row of seconds, its ratio that of throughputs: how many times faster penstock is."""
    java, ours, ratio = medians(runs, variant, measure)
    return Row(label, "s", java, ours, None if not ratio else 1 / ratio, goal, "at least", **more)


def size_row(runs: list[Run], variant: str, measure: str, label: str, unit: str, goal: float | None = None, **more: Any) -> Row:
    """A row of something that should be small, its ratio penstock's to Java's."""
    java, ours, ratio = medians(runs, variant, measure)
    return Row(label, unit, java, ours, ratio, goal, "at most", **more)
