"""Applications that are moved from Java to penstock and back, on one application.id: their results are those of Java alone.

Records come all the while. Java begins, penstock goes on, Java ends it; then Java alone reads the same input with an id of its
own. What both have written is compared: key, value, timestamp, headers, and the order within each partition.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.hashing import default_partition
from tests.conformance.java_twin import JavaUnavailableError, build
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT
from tests.moving.applications import Application, JavaApplication, PenstockApplication

pytestmark = pytest.mark.slow

START = int(time.time()) // 10 * 10_000 - 600_000  # of today: brokers delete what is old
RECORDS = 6_000
BATCH = 60


@dataclass(frozen=True)
class Case:
    """An application, and how its records look. `by_key`: only the order of each key is fixed, not that of the partition."""

    name: str
    partitions: int = 2
    by_key: bool = False
    each: int = 400
    """So much each part of the way has to write before the next takes over."""
    settings: dict[str, str] = field(default_factory=dict)

    def record(self, number: int) -> tuple[int, Message]:
        """Of which partition the record of a number is, and what it is; times are out of order, though never too late."""
        timestamp = START + 40 * number - (number * 7919) % 900
        key = f"order-{number}" if self.name == "foreign-key" else f"key-{number * 17 % 23}"
        # A word comes in one partition only: elsewhere the order in which partitions are read would count.
        partition = number % self.partitions if self.by_key else default_partition(key.encode(), self.partitions)
        words = [f"p{partition}-{'x' * (number * 31 % 5)}{number * step % 37}" for step in (1, 7, 11)]
        return partition, Message(key.encode(), " ".join(words).encode(), timestamp, (("n", str(number).encode()),))

    def table(self) -> Iterator[tuple[int, Message]]:
        """What the other topic has before the first record comes."""
        keys = []
        if self.name == "left-join":
            keys = [f"key-{number}" for number in range(23) if number % 3]
        elif self.name == "foreign-key":
            keys = [f"p0-{'x' * length}{number}" for number in range(37) for length in range(5)]
        for number, key in enumerate(keys):
            message = Message(key.encode(), f"user {number}".encode(), START - 1_000 + number)
            yield default_partition(key.encode(), self.partitions), message


@pytest.fixture(scope="session")
def classes() -> Path:
    """Kafka Streams with the topologies."""
    with (Path(__file__).parents[1] / "conformance" / "java" / "pom.xml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return build()
        except JavaUnavailableError as reason:
            pytest.skip(str(reason))


class World:
    """The topics of a case, and who runs on them."""

    def __init__(self, kafka: Kafka, classes: Path, folder: Path, case: Case) -> None:
        self.kafka, self.case, self._classes, self._folder = kafka, case, classes, folder
        self.source, self.other, self.moved, self.alone = (unique(name) for name in ("in", "other", "moved", "alone"))
        kafka.create(self.source, self.other, self.moved, self.alone, partitions=case.partitions)
        self.application = unique(case.name)
        self._feeding: threading.Thread | None = None
        self._started: list[Application] = []
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
        for partition in range(case.partitions):
            kafka.feed(self.other, [m for p, m in case.table() if p == partition], partition=partition)

    def java(self, application: str | None = None, sink: str | None = None, **settings: str) -> Application:
        return self._start(JavaApplication, "java", application, sink, settings)

    def penstock(self, **settings: str) -> Application:
        return self._start(PenstockApplication, "penstock", None, None, settings)

    def _start(self, kind: Any, name: str, application: str | None, sink: str | None, settings: dict[str, str]) -> Application:
        state = self._folder / f"{name}-of-{application or 'moved'}"  # Java finds what it had before
        topics = [self.source, self.other, sink or self.moved]
        arguments = [self.case.name, application or self.application, self.kafka.bootstrap_servers, str(state), *topics]
        more = {**self.case.settings, **settings}
        log = self._folder / f"{name}-{len(self._started)}.log"
        started = kind(self._classes, arguments, more, log) if kind is JavaApplication else kind(arguments, more, log)
        self._started.append(started)
        return started  # type: ignore[no-any-return]

    def feed(self, first: int, last: int, pause: float = 0.0) -> None:
        """Records of these numbers, in small batches."""
        for begin in range(first, last, BATCH):
            self.send(self.case.record(number) for number in range(begin, min(last, begin + BATCH)))
            time.sleep(pause)

    def send(self, records: Iterable[tuple[int, Message]]) -> None:
        """Records for partitions, in order; returns when all are there."""
        for partition, message in records:
            named: Any = {"timestamp": message.timestamp, "headers": list(message.headers)}
            self._producer.produce(self.source, message.value, message.key, partition, **named)
        assert not self._producer.flush(60)

    def feed_all_the_while(self) -> None:
        """All records, over half a minute."""
        self._feeding = threading.Thread(target=self.feed, args=(0, RECORDS, 0.3), daemon=True)
        self._feeding.start()

    def end_feed(self) -> None:
        """Until all records are there."""
        assert self._feeding is not None
        self._feeding.join(LIMIT)
        assert not self._feeding.is_alive()

    def written(self, sink: str) -> int:
        return sum(self.kafka.ends(sink).values())

    def wait_for_more(self) -> None:
        """Until the next may take over."""
        before, more = self.written(self.moved), self.case.each
        wait_until(lambda: self.written(self.moved) >= before + more, f"{more} more results", interval=0.2)

    def wait_for_end(self, application: str, sink: str) -> None:
        """Until all is consumed, also what lies between the parts of the application, and nothing more is written."""
        inner = [
            topic for topic in self.kafka.topics() if topic.startswith(f"{application}-") and not topic.endswith("-changelog")
        ]

        def is_done() -> bool:
            before = self.written(sink)
            return self.kafka.has_consumed(application, self.source, *inner) and before == self.written(sink)

        wait_until(is_done, f"{application} has consumed everything", interval=1.0)

    def results(self, sink: str) -> dict[Any, list[Any]]:
        """What was written, by partition or by key, in order."""
        found: dict[Any, list[Any]] = {}
        for message in self.kafka.read(sink):
            group = (message.partition, message.key) if self.case.by_key else message.partition
            found.setdefault(group, []).append((message.key, message.value, message.timestamp, message.headers))
        return found

    def close(self) -> None:
        for application in self._started:
            application.kill()


@pytest.fixture
def world(kafka: Kafka, classes: Path, tmp_path: Path) -> Iterator[Callable[[Case], World]]:
    made: list[World] = []

    def make(case: Case) -> World:
        made.append(World(kafka, classes, tmp_path, case))
        return made[-1]

    yield make
    for one in made:
        one.close()


def compare(world: World) -> None:
    """With Java alone, which reads all of it now."""
    application = unique("alone")
    alone = world.java(application, world.alone)
    alone.wait()
    world.wait_for_end(application, world.alone)
    alone.close()
    equal(world)


def equal(world: World) -> None:
    """What has been written on both ways."""
    expected, found = world.results(world.alone), world.results(world.moved)
    assert sum(map(len, expected.values())) > 3 * world.case.each
    for group, records in expected.items():
        mine = found.get(group, [])
        at = next((i for i, (one, other) in enumerate(zip(records, mine)) if one != other), min(len(records), len(mine)))
        assert mine[at : at + 3] == records[at : at + 3], f"{group} differs at {at} of {len(records)} (there are {len(mine)})"
    assert found.keys() == expected.keys()


CASES = [
    Case("word-count", 3, by_key=True),
    Case("word-count", 3, by_key=True, settings={"repartition.format": "records"}),
    Case("chain", 1),
    Case("on-close", each=100),
    Case("suppressed", 1, each=100),
    Case("sessions"),
    Case("left-join"),
    Case("foreign-key", 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join([case.name, *case.settings.values()]))
def test_should_give_the_results_of_java_alone_when_it_is_moved_under_load(case: Case, world: Callable[[Case], World]) -> None:
    here = world(case)
    here.feed_all_the_while()
    first = here.java()
    first.wait()
    here.wait_for_more()
    first.close(leave=False)  # as Java does where nobody says anything: its member is in the group until its session ends
    second = here.penstock()
    second.wait()
    here.wait_for_more()
    second.close()
    third = here.java()
    third.wait()
    here.end_feed()
    here.wait_for_end(here.application, here.moved)
    third.close()
    compare(here)


@pytest.mark.parametrize(
    "case",
    [
        Case("word-count", 3, by_key=True),
        Case("word-count", 3, by_key=True, settings={"repartition.format": "records"}),
        Case("chain", 1),
    ],
    ids=lambda case: "-".join([case.name, *case.settings.values()]),
)
def test_should_give_the_results_of_java_alone_when_both_are_killed(case: Case, world: Callable[[Case], World]) -> None:
    """Java cannot read the blocks that a kill may leave: penstock is started again and closed before Java goes on."""
    here = world(case)
    here.feed_all_the_while()
    first = here.java()
    first.wait()
    here.wait_for_more()
    first.kill()
    second = here.penstock()
    second.wait()
    here.wait_for_more()
    second.kill()
    if "repartition.format" not in case.settings:
        again = here.penstock()
        again.wait()
        again.close()
    wait_until(lambda: not here.kafka.members(here.application), "the group has noticed")
    third = here.java()
    third.wait()
    here.end_feed()
    here.wait_for_end(here.application, here.moved)
    third.close()
    compare(here)


def test_should_fire_timers_as_java_that_was_stopped_at_the_same_places(world: Callable[[Case], World]) -> None:
    """Java forgets when timers are due as it ends, so the other one is Java in all three parts.

    When a timer fires within what Java reads at once is chance: so what makes it fire comes alone.
    """
    here = world(Case("ticker", by_key=True, each=30))
    alone = unique("alone")
    for part in range(3):
        running = [here.penstock() if part == 1 else here.java(), here.java(alone, here.alone)]
        for application in running:
            application.wait()
        for number in range(4 * part, 4 * part + 4):
            for keys in (["tick"], [f"key-{one}" for one in range(number + 3)]):
                here.send([(p, Message(f"{key}-{p}".encode(), b"x", START + 10_000 * number)) for key in keys for p in (0, 1)])
                here.wait_for_end(here.application, here.moved)
                here.wait_for_end(alone, here.alone)
        for application in running:
            application.close()
    equal(here)
