"""Jobs 1 and 2: WordCount with a repartition; in Python's own words, and with lambdas that no one can look into."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy

from bench.application import Side
from bench.job import Bench, Measures, Row, Run, size_row, time_row
from bench.jobs.throughput import Throughput
from bench.load import Item, create_topic, long_bytes, write
from bench.probe import Expected

LINES, VOCABULARY, WORDS = 1_000_000, 50_000, 5
SOURCE, PARTITIONS = "lines", 4

EOS, ALO, ALO_100 = "exactly_once_v2", "at_least_once", "at_least_once, commit.interval.ms=100"
EOS_TWO_THREADS = "exactly_once_v2, num.stream.threads=2"
LAMBDA = "lambdas and count, "


@cache
def feed_lines(bench: Bench, topic: str = SOURCE) -> Expected:
    """Write the lines once for all jobs that read them; what the counts must be."""
    lines, vocabulary = bench.scaled(LINES), bench.scaled(VOCABULARY, 100)
    chosen = numpy.random.default_rng(1).integers(0, vocabulary, (lines, WORDS))
    words = [f"w{number:06d}".encode() for number in range(vocabulary)]

    def items() -> Iterator[Item]:
        for number, line in enumerate(chosen.tolist()):
            yield b"%d" % number, b" ".join([words[i] for i in line]), 0, -1

    create_topic(bench.bootstrap, topic, PARTITIONS)
    write(bench.bootstrap, topic, items())
    counts = numpy.bincount(chosen.ravel(), minlength=vocabulary).tolist()
    return Expected({word: long_bytes(count) for word, count in zip(words, counts) if count})


def settings_of(variant: str) -> dict[str, str]:
    """`guarantee, key=value, ...` as settings."""
    guarantee, *more = variant.split(", ")
    return {"processing.guarantee": guarantee, **dict(pair.split("=", 1) for pair in more)}


class WordCount(Throughput):
    """Recognised callables: `str.split`, `count`."""

    number, name = 1, "wordcount"
    title = (
        f"WordCount, {LINES:,} lines of {WORDS} words, {VOCABULARY:,} words vocabulary, {PARTITIONS} partitions, repartitioned"
    )
    topology = "wordcount"

    def feed(self) -> None:
        self.expected = feed_lines(self.bench)
        self.notes.append(
            "Both sides with their defaults. Kafka Streams commits every 30 s under at_least_once, and its cache gives out the "
            "last counts only then; the third variant has both sides commit every 100 ms."
        )

    def variants(self) -> list[str]:
        return [EOS, ALO] if self.bench.quick else [EOS, ALO, ALO_100]

    def run(self, side: Side, variant: str) -> Measures:
        return self.measure(side, self.topology, SOURCE, self.expected, settings=settings_of(variant))

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant, goal in zip(self.variants(), (6.0, 5.0, None)):
            # What has no goal is told in full but does not count.
            rows.append(time_row(runs, variant, "seconds", f"{variant}, from RUNNING", goal, headline=True))
            rows.append(
                time_row(runs, variant, "with start-up", f"{variant}, with start-up", goal and 1.0, headline=goal is not None)
            )
            rows.append(size_row(runs, variant, "cpu", f"{variant}, CPU of all processes from RUNNING", "CPU s"))
            rows.append(size_row(runs, variant, "output records", f"{variant}, records written", "records"))
        return rows


class OpaqueWordCount(WordCount):
    """The same job; every operator runs the user's own Python."""

    number, name = 2, "wordcount-opaque"
    title = f"{WordCount.title}, lambdas only"
    topology = "wordcount-opaque"

    def feed(self) -> None:
        self.expected = feed_lines(self.bench)
        self.notes.append(
            "Both sides with their defaults. With num.stream.threads=2 penstock, too, has two threads, and words cross the "
            "repartition topic as blocks. The first variants use `aggregate` with two lambdas, the others end in `count`."
        )

    def variants(self) -> list[str]:
        return [EOS, ALO, EOS_TWO_THREADS, LAMBDA + EOS, LAMBDA + ALO, LAMBDA + EOS_TWO_THREADS]

    def run(self, side: Side, variant: str) -> Measures:
        topology = "wordcount-lambda" if variant.startswith(LAMBDA) else self.topology
        settings = settings_of(variant.removeprefix(LAMBDA))
        return self.measure(side, topology, SOURCE, self.expected, settings=settings)

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant, goal in zip(self.variants(), (4.5, 2.0, 3.5, 4.5, 2.0, 3.5)):
            rows.append(time_row(runs, variant, "seconds", f"{variant}, from RUNNING", goal, headline=True))
            rows.append(time_row(runs, variant, "with start-up", f"{variant}, with start-up"))
            rows.append(size_row(runs, variant, "cpu", f"{variant}, CPU of all processes from RUNNING", "CPU s"))
        return rows
