"""Job 4: a stream joined with a table, and a stream joined with a stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from bench.application import Side
from bench.job import EXACTLY_ONCE, Measures, Row, Run, size_row, time_row
from bench.jobs.throughput import Throughput
from bench.load import Item, create_topic, write
from bench.probe import Expected

CLICKS, USERS, PAIRS = 1_000_000, 200_000, 500_000
_START = 1_700_000_000_000


class Joins(Throughput):
    """Every record finds its partner, so the number of results is known."""

    number, name = 4, "joins"
    title = (
        f"Joins: {CLICKS:,} records on a table of {USERS:,} rows; two streams of {PAIRS:,} records, 10 s windows; exactly-once"
    )

    def feed(self) -> None:
        self.expected = {"join-table": self._feed_table(), "join-stream": self._feed_streams()}

    def variants(self) -> list[str]:
        return ["join-table", "join-stream"]

    def run(self, side: Side, variant: str) -> Measures:
        source, other = ("clicks", "users") if variant == "join-table" else ("left", "right")
        return self.measure(side, variant, source, self.expected[variant], other, settings=EXACTLY_ONCE)

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant, label in (("join-table", "stream with table"), ("join-stream", "stream with stream")):
            rows.append(time_row(runs, variant, "seconds", f"{label}, from RUNNING", 2.0, headline=True))
            rows.append(time_row(runs, variant, "with start-up", f"{label}, with start-up"))
            rows.append(size_row(runs, variant, "cpu", f"{label}, CPU of all processes from RUNNING", "CPU s"))
        return rows

    def _feed_table(self) -> Expected:
        """The table's rows are older than all clicks: by their timestamps they come first."""
        clicks, users = self.bench.scaled(CLICKS), self.bench.scaled(USERS)
        chosen = numpy.random.default_rng(4).integers(0, users, clicks).tolist()
        last: dict[bytes, bytes] = {}

        def items() -> Iterator[Item]:
            for number, user in enumerate(chosen):
                key, value = b"user-%d" % user, b"click-%d" % number
                last[key] = b"%b,name-%d" % (value, user)
                yield key, value, _START + users + number, -1

        for topic in ("clicks", "users"):
            create_topic(self.bench.bootstrap, topic, self.partitions)
        write(self.bench.bootstrap, "users", ((b"user-%d" % n, b"name-%d" % n, _START + n, -1) for n in range(users)))
        write(self.bench.bootstrap, "clicks", items())
        return Expected(last, clicks)

    def _feed_streams(self) -> Expected:
        """Each key once on either side, 2 s apart."""
        pairs = self.bench.scaled(PAIRS)
        for topic, late in (("left", 0), ("right", 2_000)):
            create_topic(self.bench.bootstrap, topic, self.partitions)
            items = ((b"key-%d" % n, b"%b-%d" % (topic.encode(), n), _START + late + n, -1) for n in range(pairs))
            write(self.bench.bootstrap, topic, items)
        return Expected({b"key-%d" % n: b"left-%d,right-%d" % (n, n) for n in range(pairs)}, pairs)
