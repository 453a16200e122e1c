"""Job 7: what size costs: more records, more keys in the store, more partitions."""

from __future__ import annotations

import statistics
from typing import Literal

import numpy

from bench.application import Side
from bench.job import EXACTLY_ONCE, Bench, Measures, Row, Run, medians
from bench.jobs.latency import trickle
from bench.jobs.restore import fill_changelog
from bench.jobs.throughput import Throughput
from bench.load import create_topic, long_bytes, write
from bench.probe import Expected

RECORDS = (250_000, 1_000_000, 4_000_000)
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
DISTINCT = (100_000, 1_000_000)
PARTITIONS = (1, 4, 16, 64)
_FIXED_RECORDS, _FIXED_KEYS = 1_000_000, 10_000
_JAVA_KEYS = (10_000, 1_000_000)  # Kafka Streams is run where it is cheap
_TRICKLE_RATE, _TRICKLE_SECONDS = 100, 20.0
_MS_PER_PARTITION = 5.0

Axis = Literal["records", "keys", "distinct", "partitions", "turn"]


class Size(Throughput):
    """A count per key, without a repartition, exactly-once; one size at a time is varied."""

    number, name = 7, "size"
    title = "Cost over size: a count per key, exactly-once, over records, keys in the store, and partitions"
    max_rounds = 1

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.inputs: dict[str, Expected] = {}

    def feed(self) -> None:
        self.notes.append(
            f"Keys: the store holds that many before the run begins, restored from a changelog; {_FIXED_KEYS:,} of them, spread "
            "over all, come in the input. Distinct keys: that many come in the input, at random, and each has results to write: "
            "what is spared where keys come often, a result for each record, is spared less and less. "
            f"A turn's cost per partition: the median latency at {_TRICKLE_RATE} records/s over the number of partitions, its "
            "slope; a record waits for the turn that is running and then for its own, so the slope is that of one to two turns."
        )

    def variants(self) -> list[str]:
        axes = (
            ("records", RECORDS),
            ("keys", KEYS),
            ("distinct", DISTINCT),
            ("partitions", PARTITIONS),
            ("turn", PARTITIONS),
        )
        return [f"{axis} {size}" for axis, sizes in axes for size in sizes]

    def sides(self, variant: str) -> tuple[Side, ...]:
        axis, size = _parse(variant)
        if axis == "keys":
            return ("java", "penstock") if size in _JAVA_KEYS else ("penstock",)
        if axis == "distinct":
            return ("java", "penstock") if size == DISTINCT[-1] else ("penstock",)
        return ("java", "penstock") if axis in ("partitions", "turn") and size in (1, 64) else ("penstock",)

    def run(self, side: Side, variant: str) -> Measures:
        axis, size = _parse(variant)
        if axis == "turn":
            return self._run_turn(side, size)
        records, keys, partitions = {
            "records": (size, _FIXED_KEYS, 4),
            "keys": (_FIXED_RECORDS, size, 4),
            "distinct": (_FIXED_RECORDS, size, 4),
            "partitions": (_FIXED_RECORDS, _FIXED_KEYS, size),
        }[axis]
        filled = self.bench.scaled(keys, 100) if axis == "keys" else 0
        count = self.bench.scaled(records, 1_000)
        source, expected = self._input(count, self.bench.scaled(keys, 100), partitions, bool(filled))
        prepare = None
        if filled:

            def prepare(application_id: str) -> None:
                fill_changelog(self.bench.bootstrap, application_id, filled, partitions)

        measures = self.measure(side, "count", source, expected, partitions=partitions, prepare=prepare, settings=EXACTLY_ONCE)
        return {**measures, "microseconds": measures["seconds"] / count * 1e6}

    def rows(self, runs: list[Run]) -> list[Row]:
        rows = []
        for variant in self.variants():
            axis, size = _parse(variant)
            measure, unit = ("p50", "ms") if axis == "turn" else ("microseconds", "us/record")
            java, ours, ratio = medians(runs, variant, measure)
            label = {
                "turn": f"{size:,} partitions, median latency at {_TRICKLE_RATE} records/s",
                "keys": f"{size:,} keys in the store",
                "distinct": f"{size:,} distinct keys in the input",
            }.get(axis, f"{size:,} {axis}")
            rows.append(Row(label, unit, java, ours, ratio, goal_is="at most"))
        turns = {size: medians(runs, f"turn {size}", "p50")[1] for size in PARTITIONS}
        slope = statistics.linear_regression(list(turns), list(turns.values())).slope
        java_turns = [medians(runs, f"turn {size}", "p50")[0] for size in (PARTITIONS[0], PARTITIONS[-1])]
        java_slope = None if None in java_turns else (java_turns[1] - java_turns[0]) / (PARTITIONS[-1] - PARTITIONS[0])  # type: ignore[operator]
        rows.append(
            Row(
                "a turn's fixed cost per partition (goal: 5 ms)",
                "ms",
                java_slope,
                slope,
                slope / _MS_PER_PARTITION,
                1.0,
                "at most",
            )
        )
        for axis, sizes, goal in (("records", RECORDS, 1.3), ("keys", KEYS, 1.5)):
            ends = [medians(runs, f"{axis} {size}", "microseconds")[1] for size in (sizes[0], sizes[-1])]
            label = f"cost of a record at {sizes[-1]:,} {axis}{' in the store' * (axis == 'keys')} to that at {sizes[0]:,}"
            rows.append(Row(label, "times", None, ends[1] / ends[0], ends[1] / ends[0], goal, "at most"))
        return rows

    def _input(self, records: int, keys: int, partitions: int, counted_before: bool) -> tuple[str, Expected]:
        """An input topic of this size, written once."""
        source = f"size-{records}-{keys}-{partitions}{'-filled' if counted_before else ''}"
        if source not in self.inputs:
            chance = numpy.random.default_rng(7)
            if counted_before:
                chosen = chance.choice(chance.choice(keys, min(keys, _FIXED_KEYS), replace=False), records)
            else:
                chosen = chance.integers(0, keys, records)
            create_topic(self.bench.bootstrap, source, partitions)
            write(self.bench.bootstrap, source, ((b"key-%d" % key, b"x", 0, -1) for key in chosen.tolist()))
            found, counts = numpy.unique(chosen, return_counts=True)
            more = int(counted_before)
            last = {b"key-%d" % key: long_bytes(count + more) for key, count in zip(found.tolist(), counts.tolist())}
            self.inputs[source] = Expected(last)
        return source, self.inputs[source]

    def _run_turn(self, side: Side, partitions: int) -> Measures:
        seconds = _TRICKLE_SECONDS if self.bench.scale >= 1 else 5.0
        source = f"turn-{side}-{partitions}"
        create_topic(self.bench.bootstrap, source, partitions)
        with self.application(side, "count", source, partitions=partitions, settings=EXACTLY_ONCE) as (
            app,
            spec,
        ):
            app.wait_until_running()
            latencies, _ = trickle(app, spec, partitions, _TRICKLE_RATE, seconds / 2, seconds)
        return {"p50": float(numpy.percentile(latencies, 50)) * 1000}


def _parse(variant: str) -> tuple[Axis, int]:
    axis, size = variant.split()
    return axis, int(size)  # type: ignore[return-value]
