from __future__ import annotations

import pytest

from bench import topologies
from bench.job import Bench, Job, Run
from bench.jobs import JOBS
from bench.jobs.restore import Restore
from bench.jobs.size import PARTITIONS, Size
from bench.jobs.wordcount import ALO_100, settings_of


def _runs(job: Job) -> list[Run]:
    """One round of every variant; penstock takes half of what Kafka Streams takes in everything."""
    values = {"java": 2.0, "penstock": 1.0}
    return [
        Run(variant, side, 1, dict.fromkeys(_MEASURES, values[side])) for variant in job.variants() for side in job.sides(variant)
    ]


_MEASURES = (
    "seconds", "with start-up", "cpu", "output records", "100/s p50", "100/s p95", "100/s p99", "5000/s p50", "5000/s p95",
    "5000/s p99", "100/s cpu", "5000/s cpu", "idle cpu", "restore", "start without state", "start with state", "microseconds",
    "p50", "pss", "rss", "idle pss", "idle rss", "first result",
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
    assert sorted(JOBS) == [*range(1, 9), 10]


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


@pytest.mark.parametrize("name", topologies._TOPOLOGIES)
def test_should_build_every_topology(name: str) -> None:
    described = str(topologies.named(name, "source", "other", "sink").describe())
    assert "Sink" in described
    assert ("other" in described) == name.startswith("join")
