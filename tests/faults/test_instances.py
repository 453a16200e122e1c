"""Two instances of one application, of which one is cut off for longer than its session under load: its work is done once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import DevBroker
from tests.faults.applications import APPLICATIONS, PARTITIONS
from tests.faults.process import ApplicationProcess
from tests.faults.verifier import findings, hanging_transactions
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.network import BROKER, Apart, NoNetworkError, reachable_listeners
from tests.harness.waiting import LIMIT

# The session of an application under fault is 6 s.
_LONGER_THAN_A_SESSION = 15.0


@pytest.fixture
def apart() -> Iterator[Apart]:
    try:
        with Apart() as apart:
            yield apart
    except NoNetworkError as exc:
        pytest.skip(f"a network is cut with a namespace, which needs root: {exc}")


class Pair:
    """A broker and two instances of an application under load; `apart` gives the first a host of its own."""

    def __init__(self, application: str, folder: Path, apart: Apart | None = None) -> None:
        self.name, self._application = unique(application), APPLICATIONS[application]
        self._broker = DevBroker(data_dir=folder / "broker", overrides=None if apart is None else reachable_listeners()).start(
            300
        )
        self.kafka = Kafka(self._broker.bootstrap_servers)
        self.kafka.create(f"{self.name}-in", f"{self.name}-out", partitions=PARTITIONS, configs={"retention.ms": "-1"})
        self._chance, self._fed = random.Random(7), list[Message]()
        self.logs = [folder / "first.log", folder / "second.log"]
        self.instances = [
            ApplicationProcess(
                [self.name],
                self._broker.bootstrap_servers if host is None else self._broker.bootstrap_servers.replace("127.0.0.1", BROKER),
                "exactly_once_v2",
                folder / log.stem,
                log,
                host,
            )
            for log, host in zip(self.logs, (apart, None))
        ]

    def __enter__(self) -> Pair:
        """Start both; the first has had all the work before the second comes."""
        self.instances[0].start()
        self.feed()
        wait_until(lambda: sum(self.kafka.ends(f"{self.name}-out").values()) > 100, "the first output", interval=0.2)
        self.instances[1].start()
        wait_until(lambda: all("to RUNNING" in self.words(i) for i in range(2)), "both run", interval=0.5)
        return self

    def __exit__(self, *_: object) -> None:
        for instance in self.instances:
            instance.thaw() if instance.is_alive else None
            instance.kill()
        self._broker.stop()

    def words(self, index: int) -> str:
        """What an instance has said."""
        return self.logs[index].read_text(errors="replace")

    def feed(self) -> None:
        messages = self._application.make(self._chance, len(self._fed), 300)["in"]
        self.kafka.feed(f"{self.name}-in", messages)
        self._fed.extend(messages)

    def without(self, index: int, cut: Callable[[], None], mend: Callable[[], None]) -> str:
        """Cut an instance off for longer than its session, under load; returns what it said when it was back."""
        self.feed()
        time.sleep(self._chance.random())
        cut()
        before, started = len(self.words(index)), time.monotonic()
        while time.monotonic() - started < _LONGER_THAN_A_SESSION:
            self.feed()
            time.sleep(1.0)
        self.check()  # the other has done its work meanwhile
        self.feed()
        mend()
        self.feed()
        wait_until(lambda: "generation" in self.words(index)[before:], "the instance is a member again", interval=0.5)
        self.feed()
        self.check()
        return self.words(index)[before:]

    def check(self) -> None:
        """Every record has been processed once, as soon as all have been."""
        deadline, inputs = time.monotonic() + LIMIT, {"in": self._fed}
        while (wrong := findings(self._application, self.name, self.kafka, inputs, True)) and time.monotonic() < deadline:
            time.sleep(1.0)
        assert not wrong, "\n".join([*wrong, *(self.words(i)[-6000:] for i in range(2))])

    def end(self) -> None:
        """Close both, in order."""
        assert [instance.stop() for instance in self.instances] == [0, 0]
        assert not hanging_transactions(self.kafka, [f"{self.name}-out"])


def is_refused(said: str) -> bool:
    """Whether an instance says that a turn of its was not committed, or that it was a member no more."""
    return any(sign in said for sign in ("too late", "refused", "taken up again", "interrupted"))


@pytest.mark.slow
@pytest.mark.parametrize("application", ["windowed", "word-count"])
def test_should_refuse_an_instance_that_stood_still_and_do_its_work_once(application: str, tmp_path: Path) -> None:
    with Pair(application, tmp_path) as pair:
        for index, instance in enumerate(pair.instances):
            said = pair.without(index, instance.freeze, instance.thaw)
            assert is_refused(said), said
        pair.end()


@pytest.mark.slow
@pytest.mark.parametrize("application", ["windowed", "word-count"])
def test_should_refuse_an_instance_whose_network_was_cut_and_do_its_work_once(
    application: str, apart: Apart, tmp_path: Path
) -> None:
    with Pair(application, tmp_path, apart) as pair:
        said = pair.without(0, apart.cut, apart.mend)
        assert is_refused(said), said
        pair.end()
