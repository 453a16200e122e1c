"""Runs jobs: both sides interleaved on one broker, round after round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bench import environment
from bench.job import Bench, Job, Row, Run
from bench.jobs import JOBS
from penstock.kafka.dev_broker import DevBroker

# What jobs write has times of years ago, which a broker would delete before it is read.
BROKER_SETTINGS = {"log.retention.ms": "-1"}


@dataclass
class Result:
    """What came out of a job, with where and when."""

    number: int
    name: str
    title: str
    scale: float
    rounds: int
    environment: dict[str, str]
    notes: list[str]
    rows: list[Row]
    runs: list[Run] = field(default_factory=list)


def run_jobs(
    numbers: Iterable[int],
    rounds: int,
    scale: float,
    quick: bool,
    finished: Callable[[Result, Bench], None],
    log: Callable[[str], None],
    only: frozenset[str] = frozenset(),
) -> None:
    """Each job with a broker of its own, so that none inherits the other's topics; `finished` is called after each."""
    for number in numbers:
        job_type = JOBS[number]
        with DevBroker(overrides=BROKER_SETTINGS).start(300) as broker:
            bench = Bench(broker.bootstrap_servers, scale, quick, only)
            job = job_type(bench)
            log(f"job {number}: {job.title}")
            started = time.monotonic()
            job.feed()
            log(f"job {number}: fed in {time.monotonic() - started:.1f} s")
            runs = run_rounds(job, min(rounds, job.max_rounds), log)
            result = Result(
                number,
                job.name,
                job.title,
                scale,
                min(rounds, job.max_rounds),
                environment.describe(),
                job.notes,
                job.rows(runs),
                runs,
            )
            finished(result, bench)


def run_rounds(job: Job, rounds: int, log: Callable[[str], None]) -> list[Run]:
    """Every variant on every side in every round; who begins alternates."""
    runs = []
    for number in range(1, rounds + 1):
        for variant in job.variants():
            sides = job.sides(variant)
            for side in sides if number % 2 else tuple(reversed(sides)):
                started = time.monotonic()
                measures = job.run_java(variant) if side == "java" else job.run_penstock(variant)
                runs.append(Run(variant, side, number, measures))
                told = ", ".join(f"{name} {value:.4g}" for name, value in measures.items())
                log(f"job {job.number} round {number} {variant} {side}: {told} ({time.monotonic() - started:.0f} s)")
    return runs
