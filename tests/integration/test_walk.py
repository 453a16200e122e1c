"""The way of a new user: run an application, crash it, scale it up, lose an instance, and start over."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import DevBroker
from tests.harness.command_line import Background, penstock
from tests.harness.kafka import Kafka, wait_until
from tests.integration.helpers import counts, texts

Start = Callable[..., Background]


class Walk:
    """WordCount on a broker of its own, and what has been fed to it."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.fed: Counter[str] = Counter()
        self.settings = folder / "app.toml"
        self.settings.write_text(
            f'application.id = "walk"\nbootstrap.servers = "{kafka.bootstrap_servers}"\n'
            'processing.guarantee = "exactly_once_v2"\nstatestore.cache.max.bytes = 0\n'
            'session.timeout.ms = 6000\nheartbeat.interval.ms = 500\n[spark]\nmaster = "local[2]"\n'
        )
        self._folder = folder

    def run(self, instance: str, threads: int = 1) -> tuple[str, ...]:
        """The command that runs an instance with a state folder of its own."""
        threaded = ("-c", f"num.stream.threads={threads}")
        settings = ("--config", str(self.settings), "-c", f"state.dir={self._folder / instance}", *threaded)
        return ("run", "penstock_examples.wordcount:topology", *settings)

    def feed(self, *lines: str) -> None:
        self.kafka.feed("lines", texts(*((line, line) for line in lines)))
        self.fed.update(word for line in lines for word in line.split())

    def wait_for_counts(self) -> None:
        """Every word is counted 1, 2, 3 … up to how often it was fed: none is missing, none comes twice."""
        expected = {word: list(range(1, total + 1)) for word, total in self.fed.items()}
        wait_until(lambda: counts(self.kafka, "word-counts") == expected, f"the counts are {self.fed}", interval=0.3)

    def status(self) -> str:
        return penstock("status", "--config", str(self.settings)).stdout

    def wait_for_status(self, pattern: str) -> str:
        wait_until(lambda: re.search(pattern, self.status()), f"status shows {pattern}", interval=0.5)
        return self.status()


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    with DevBroker() as broker:
        kafka = Kafka(broker.bootstrap_servers)
        kafka.create("lines", "word-counts", partitions=2)
        yield Walk(kafka, tmp_path)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Background] = []

    def begin(*arguments: str) -> Background:
        started.append(Background(*arguments))
        return started[-1]

    yield begin
    for command in started:
        if command.process.poll() is None:
            command.end(signal.SIGKILL)


@pytest.mark.slow
def test_should_walk_from_run_to_reset(walk: Walk, start: Start) -> None:
    # Run it.
    first = start(*walk.run("one"))
    walk.feed("all streams lead to kafka", "hello kafka streams")
    walk.wait_for_counts()
    assert re.search(r"walk: running on 1 instance", walk.wait_for_status(r"lag 0\n"))

    # A crash: what comes meanwhile is counted when it is back.
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    walk.feed("hello again")
    first = start(*walk.run("one"))
    walk.wait_for_counts()

    # One more thread: stopped cleanly and started with two, it goes on from its stores.
    assert first.end(signal.SIGTERM) == 0
    first = start(*walk.run("one", threads=2))
    walk.feed("one more thread")
    walk.wait_for_counts()
    assert re.search(r" 2 +1_0 1_1\n", walk.wait_for_status(r"lag 0\n"))
    assert "restoring" not in "".join(first.errors)

    # A second instance stands by; the first is killed, and the second takes over from its last commit.
    second = start(*walk.run("two"))
    walk.wait_for_status(r"running on 2 instances")
    walk.feed("two of us", "hello kafka")
    walk.wait_for_counts()
    first.end(signal.SIGKILL)
    walk.feed("only one of us", "goodbye kafka")
    walk.wait_for_counts()
    walk.wait_for_status(r"running on 1 instance,")

    # Reset: refused while it runs; a dry run changes nothing; then everything starts over.
    settings = ("--config", str(walk.settings), "-c", f"state.dir={walk.settings.parent / 'two'}")
    refused = penstock("reset", *settings)
    assert (refused.returncode, "active member" in refused.stderr) == (1, True), refused
    assert second.end(signal.SIGTERM) == 0
    assert "Traceback" not in "".join(second.errors)
    dry = penstock("reset", *settings, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "delete topic: walk-counts-changelog" in dry.stdout
    assert "walk-counts-changelog" in walk.kafka.topics()
    assert "\x1b" not in dry.stdout + dry.stderr  # no colours, no bars in a pipe
    written = len(walk.kafka.read("word-counts"))
    done = penstock("reset", *settings)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "done"), done.stderr
    assert not [topic for topic in walk.kafka.topics() if topic.startswith("walk-")]
    again = start(*walk.run("two"))
    wait_until(lambda: len(walk.kafka.read("word-counts")) >= written + walk.fed.total(), "everything is counted again")
    last = {key: found[-1] for key, found in counts(walk.kafka, "word-counts").items()}
    assert last == dict(walk.fed)
    assert again.end(signal.SIGINT) == 0
