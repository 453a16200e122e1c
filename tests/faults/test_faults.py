"""kill -9 of Python workers, of Spark's JVM, of the driver and of the broker, in the middle of turns."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import DevBroker
from tests.faults.applications import APPLICATIONS, PARTITIONS, Application
from tests.faults.process import ApplicationProcess
from tests.faults.verifier import findings, hanging_transactions, stores_that_differ
from tests.harness.kafka import Kafka, unique, wait_until
from tests.harness.waiting import LIMIT

_BATCH = 120


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DevBroker]:
    started = DevBroker(data_dir=tmp_path / "broker").start(300)
    yield started
    started.stop()


class Run:
    """Applications under fault: feed a bit, disturb, feed on, and compare at the end."""

    def __init__(
        self, names: Sequence[str], guarantee: str, broker: DevBroker, folder: Path, seed: int, resident: bool = False
    ) -> None:
        self.exactly_once = guarantee == "exactly_once_v2"
        self.broker = broker
        self.kafka = Kafka(broker.bootstrap_servers)
        self.random = random.Random(seed)
        self.applications: dict[str, Application] = {unique(name): APPLICATIONS[name] for name in names}
        self.inputs: dict[str, dict[str, list[Any]]] = {n: {t: [] for t in a.inputs} for n, a in self.applications.items()}
        self.folder = folder / "state"
        self.log = folder / "application.log"
        given = list(self.applications), broker.bootstrap_servers, guarantee, self.folder, self.log
        self.process = ApplicationProcess(*given, resident=resident)
        self.fed = 0
        self.kills: list[str] = []
        topics = [f"{n}-{topic}" for n, a in self.applications.items() for topic in (*a.inputs, "out")]
        self.kafka.create(*topics, partitions=PARTITIONS, configs={"retention.ms": "-1"})

    def feed(self, count: int = _BATCH) -> None:
        """Some more input for all applications."""
        for name, application in self.applications.items():
            made = application.make(self.random, self.fed, count)
            for topic, messages in made.items():
                self.kafka.feed(f"{name}-{topic}", messages)
                self.inputs[name][topic] += messages
        self.fed += count

    def has_output(self, more_than: int = 0) -> bool:
        """Whether all applications have written something beyond a number of records."""
        return all(sum(self.kafka.ends(f"{name}-out").values()) > more_than for name in self.applications)

    def pause(self) -> None:
        """Let turns happen for a random moment."""
        time.sleep(self.random.uniform(0.05, 1.5))

    def kill(self, what: str) -> None:
        """kill -9, and start again what does not start by itself."""
        if what == "worker":
            wait_until(lambda: not self.process.is_alive or self.process.kill_worker(self.random.randrange(10)), "a worker")
            assert self.process.is_alive, self.report(["the application ended"])
        elif what == "jvm":
            wait_until(lambda: not self.process.is_alive or self.process.has_started, "all applications run")
            wait_until(lambda: not self.process.is_alive or self.process.kill_jvm(), "a JVM")
            assert self.process.is_alive, self.report(["the application ended"])
        elif what == "driver":
            self.process.kill()
            self.process.start()
        else:
            self.broker.kill()
            self.broker.start(300)
        self.kills.append(what)

    def all_findings(self) -> list[str]:
        """What is wrong with the outputs now."""
        assert self.process.is_alive, self.report(["the application ended"])
        return [
            finding
            for name, application in self.applications.items()
            for finding in findings(application, name, self.kafka, self.inputs[name], self.exactly_once)
        ]

    def verify(self, timeout: float = LIMIT) -> None:
        """Wait until everything is processed; then outputs, transactions, stores and changelogs must be right."""
        deadline = time.monotonic() + timeout
        while (wrong := self.all_findings()) and time.monotonic() < deadline:
            time.sleep(1.0)
        assert not wrong, self.report(wrong)
        time.sleep(1.0)  # what comes too much comes now
        assert not (wrong := self.all_findings()), self.report(wrong)
        assert self.process.stop() == 0, self.report(["the process did not close"])
        internal = [t for t in self.kafka.topics() if t.startswith(tuple(self.applications))]
        assert not (wrong := hanging_transactions(self.kafka, internal)), self.report(wrong)
        if self.exactly_once:
            wrong = [f for n, a in self.applications.items() for f in stores_that_differ(a, n, self.kafka, self.folder)]
            assert not wrong, self.report(wrong)

    def report(self, wrong: Sequence[str]) -> str:
        return "\n".join([f"after killing {self.kills}:", *wrong, *self._said()])

    def _said(self) -> list[str]:
        """The last of what the process said, without what its JVM says once the driver is gone, and why it gave up."""
        lines = self.log.read_text(errors="replace").splitlines()
        said = [line for line in lines if not line.lstrip().startswith(("at ", "java.io.IOException: Broken pipe"))]
        why = [line for line in said if " ERROR " in line and "Failed to update accumulator" not in line]
        return [*why[-5:], "…", *said[-60:]]


@pytest.fixture
def start(broker: DevBroker, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(names: Sequence[str], guarantee: str, seed: int = 1, resident: bool = False) -> Run:
        run = Run(names, guarantee, broker, tmp_path, seed, resident)
        runs.append(run)
        run.feed()
        run.process.start()
        wait_until(run.has_output, "the first output", interval=0.2)
        return run

    yield begin
    for run in runs:
        run.process.kill()


def disturb(run: Run, kills: Sequence[str]) -> None:
    for what in kills:
        run.feed()
        run.pause()
        run.kill(what)
    run.feed()
    run.verify()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_should_survive_kills_of_worker_driver_and_broker(guarantee: str, start: Callable[..., Run]) -> None:
    disturb(start(list(APPLICATIONS), guarantee), ["worker", "driver", "broker", "worker"])


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_survive_kills_of_everything_while_threads_stay(guarantee: str, start: Callable[..., Run]) -> None:
    run = start(list(APPLICATIONS), guarantee, resident=True)
    disturb(run, ["worker", "worker", "driver", "worker", "jvm", "broker", "worker"])


@pytest.mark.slow
def test_should_survive_kills_of_sparks_jvm_in_a_session_of_its_own(start: Callable[..., Run]) -> None:
    disturb(start(["word-count"], "exactly_once_v2"), ["jvm", "jvm"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_survive_many_kills_at_random(guarantee: str, seed: int, start: Callable[..., Run]) -> None:
    chosen = random.Random(seed).choices(["worker", "driver", "broker"], [8, 1, 1], k=20)
    disturb(start(list(APPLICATIONS), guarantee, seed), chosen)


@pytest.mark.slow
def test_should_survive_forty_kills_at_random_of_worker_driver_broker_and_jvm(start: Callable[..., Run]) -> None:
    chosen = random.Random(40).choices(["worker", "driver", "broker", "jvm"], [5, 1, 1, 3], k=40)
    disturb(start(list(APPLICATIONS), "exactly_once_v2", 40), chosen)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_should_wait_for_a_broker_that_is_away_for_a_minute(guarantee: str, start: Callable[..., Run]) -> None:
    run = start(["word-count", "stateless"], guarantee)
    run.feed()
    run.broker.kill()
    time.sleep(60)
    run.broker.start(300)
    run.feed()
    run.verify()
