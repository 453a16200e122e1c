from __future__ import annotations

import struct

import pytest

from bench import topologies
from bench.job import Bench, Job, Run
from bench.jobs import JOBS
from bench.jobs.operators import LINES, Operators, _counted, _sessions, _sliding
from bench.jobs.restore import Restore
from bench.jobs.size import PARTITIONS, Size
from bench.jobs.wordcount import ALO_100, settings_of
from bench.load import long_bytes
from bench.operators import OPERATORS


def _runs(job: Job) -> list[Run]:
    """One round of every variant; penstock takes half of what Kafka Streams takes in everything."""
    values = {"java": 2.0, "penstock": 1.0}
    return [
        Run(variant, side, 1, dict.fromkeys(_MEASURES, values[side])) for variant in job.variants() for side in job.sides(variant)
    ]


_MEASURES = (
    "seconds", "with start-up", "cpu", "output records", "100/s p50", "100/s p95", "100/s p99", "5000/s p50", "5000/s p95",
    "5000/s p99", "100/s cpu", "5000/s cpu", "idle cpu", "restore", "start without state", "start with state", "microseconds",
    "p50", "pss", "rss", "idle pss", "idle rss", "silence", "first result",
)  # fmt: skip


def _job(number: int) -> Job:
    return JOBS[number](Bench("localhost:0"))


@pytest.mark.parametrize("number", JOBS)
def test_should_make_rows_of_its_runs(number: int) -> None:
    job = _job(number)
    rows = job.rows(_runs(job))
    assert len({row.label for row in rows}) == len(rows)
    assert any(row.goal is not None for row in rows)
    assert {row.times_better for row in rows if row.headline} <= {2.0, 4.0}


def test_should_have_the_jobs_of_the_bench() -> None:
    assert list(JOBS) == list(range(1, 11))


def test_should_have_a_topology_for_each_line_of_operators() -> None:
    assert list(LINES) == list(OPERATORS)


def test_should_take_some_lines_of_operators_alone() -> None:
    job = Operators(Bench("localhost:0", only=frozenset({"sessions", "reduce"})))
    assert job.variants() == ["reduce", "sessions"]
    assert [row.goal for row in job.rows(_runs(job)) if row.headline] == [3.0, 2.0]


def test_should_tell_the_longest_silence_of_all_lines() -> None:
    job = Operators(Bench("localhost:0", only=frozenset({"sessions", "reduce"})))
    runs = [*_runs(job), Run("sessions", "penstock", 2, dict.fromkeys(_MEASURES, 6.0))]
    (row,) = [row for row in job.rows(runs) if "silence" in row.label]
    assert (row.penstock, row.ratio, row.reached) == (6.0, 2.0, False)
    assert "session windows" in row.label


def test_should_work_out_windows_by_other_means() -> None:
    times = {b"k": [10_000, 11_000, 14_000]}
    assert _sessions(times) == {
        b"k" + struct.pack(">qq", 11_000, 10_000): long_bytes(2),
        b"k" + struct.pack(">qq", 14_000, 14_000): long_bytes(1),
    }
    counts = _counted(_sliding(times), times, 5_000)
    assert {struct.unpack(">q", key[1:])[0]: struct.unpack(">q", count)[0] for key, count in counts.items()} == {
        5_000: 1, 6_000: 2, 9_000: 3, 10_001: 2, 11_001: 1,
    }  # fmt: skip


def test_should_fit_what_a_partition_adds_to_a_turn() -> None:
    job = Size(Bench("localhost:0"))
    runs = [run for run in _runs(job) if not run.variant.startswith("turn")]
    runs += [Run(f"turn {size}", "penstock", 1, {"p50": 50.0 + 3.0 * size}) for size in PARTITIONS]
    (row,) = [row for row in job.rows(runs) if "per partition" in row.label]
    assert row.penstock == pytest.approx(3.0)
    assert row.reached


def test_should_say_nothing_of_a_restore_that_is_too_small_to_be_told_of() -> None:
    job = Restore(Bench("localhost:0"))
    runs = [
        Run("exactly_once_v2", side, 1, {"start without state": 5.0, "start with state": 6.0}) for side in ("java", "penstock")
    ]
    assert all(row.label.startswith("from the start") for row in job.rows(runs))


def test_should_read_the_settings_of_a_variant() -> None:
    assert settings_of(ALO_100) == {"processing.guarantee": "at_least_once", "commit.interval.ms": "100"}


def test_should_scale_sizes() -> None:
    bench = Bench("localhost:0", 0.01)
    assert bench.scaled(1_000_000) == 10_000
    assert bench.scaled(50, 100) == 100


@pytest.mark.parametrize("name", [*topologies._TOPOLOGIES, *OPERATORS])
def test_should_build_every_topology(name: str) -> None:
    described = str(topologies.named(name, "source", "other", "sink").describe())
    assert "Sink" in described
    joins = name.startswith("join") or (name in LINES and LINES[name].other != "-")
    assert ("[other]" in described) == joins
