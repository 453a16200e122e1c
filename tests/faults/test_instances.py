"""Two instances of one application, of which one is cut off for longer than its session, or killed, under load."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import DevBroker
from tests.faults.applications import APPLICATIONS, PARTITIONS
from tests.faults.process import ApplicationProcess
from tests.faults.verifier import findings, hanging_transactions
from tests.harness.kafka import Kafka, unique, wait_until

# The session of an application under fault is 6 s.
_LONGER_THAN_A_SESSION = 15.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DevBroker]:
    started = DevBroker(data_dir=tmp_path / "broker").start(300)
    yield started
    started.stop()


@pytest.mark.slow
@pytest.mark.parametrize("application", ["windowed", "word-count"])
def test_should_refuse_an_instance_that_was_cut_off_and_do_its_work_once(
    application: str, broker: DevBroker, tmp_path: Path
) -> None:
    kafka, name, chosen = Kafka(broker.bootstrap_servers), unique(application), APPLICATIONS[application]
    kafka.create(f"{name}-in", f"{name}-out", partitions=PARTITIONS, configs={"retention.ms": "-1"})
    chance, fed = random.Random(7), list[object]()
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    instances = [
        ApplicationProcess([name], broker.bootstrap_servers, "exactly_once_v2", tmp_path / log.stem, log) for log in logs
    ]

    def feed() -> None:
        messages = chosen.make(chance, len(fed), 300)["in"]
        kafka.feed(f"{name}-in", messages)
        fed.extend(messages)

    try:
        for instance in instances:
            instance.start()
        feed()
        wait_until(lambda: sum(kafka.ends(f"{name}-out").values()) > 100, "the first output", 500, 0.2)
        wait_until(lambda: all("RUNNING" in log.read_text(errors="replace") for log in logs), "both run", 300, 0.5)
        for instance in instances:
            feed()
            time.sleep(chance.random())
            instance.freeze()
            started = time.monotonic()
            while time.monotonic() - started < _LONGER_THAN_A_SESSION:
                feed()
                time.sleep(1.0)
            instance.thaw()
            feed()
        inputs = {"in": fed}
        deadline = time.monotonic() + 300
        while (wrong := findings(chosen, name, kafka, inputs, True)) and time.monotonic() < deadline:  # type: ignore[arg-type]
            time.sleep(1.0)
        assert not wrong, "\n".join([*wrong, *(log.read_text(errors="replace")[-6000:] for log in logs)])
        assert [instance.stop() for instance in instances] == [0, 0]
        assert not hanging_transactions(kafka, [f"{name}-out"])
    finally:
        for instance in instances:
            instance.thaw() if instance.is_alive else None
            instance.kill()
