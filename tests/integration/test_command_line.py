"""The commands as a user types them: real processes, a real broker, Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.command_line import TIMEOUT, Background, counts, penstock, wait_for_counts
from tests.harness.waiting import LIMIT


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    broker = Background("broker", "--port", "0")
    yield broker.wait_for(r"ready (\S+:\d+)\n").group(1)
    port = broker.output[0].rpartition(":")[2].strip()
    assert broker.end() == 0
    assert broker.errors == []
    assert _nobody_listens(int(port))


@pytest.fixture
def background() -> Iterator[Callable[..., Background]]:
    """Starts commands; whatever a failed test has left running is ended."""
    started: list[Background] = []

    def start(*arguments: str) -> Background:
        started.append(Background(*arguments))
        return started[-1]

    yield start
    for command in started:
        if command.process.poll() is None:
            command.end()


def _nobody_listens(port: int) -> bool:
    return f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text()


@pytest.mark.slow
def test_should_run_show_and_reset_an_application(brokers: str, tmp_path: Path, background: Callable[..., Background]) -> None:
    """A walk: run, look, try to reset, stop, reset, run again."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.create_topics([NewTopic("lines", 1), NewTopic("word-counts", 1)]).values():
        future.result(LIMIT)
    producer = Producer({"bootstrap.servers": brokers})
    for line in ("hello kafka", "hello spark"):
        producer.produce("lines", line)
    producer.flush()
    config = tmp_path / "app.toml"
    config.write_text(
        f'application.id = "walk"\nbootstrap.servers = "{brokers}"\nstate.dir = "{tmp_path}"\n[spark]\nmaster = "local[1]"\n'
    )
    run = ("run", "penstock_examples.wordcount:topology", "--config", str(config), "-c", "processing.guarantee=exactly_once_v2")
    wanted = {"hello": 2, "kafka": 1, "spark": 1}

    unknown = penstock("status", "--config", str(config))
    assert (unknown.returncode, unknown.stderr) == (
        1,
        "penstock: The brokers do not know the application walk. Check application.id\n",
    )

    application = background(*run)
    wait_for_counts(brokers, wanted, 3, application)
    written = len(counts(brokers))
    shown = _wait_for_status(config, r"walk: running on 1 instance, lag 0\n")
    assert re.search(r" 1_0\n", shown)  # as `penstock top` calls it
    assert re.search(r"lines +0 +2 +2 +0\n", shown)

    refused = penstock("reset", "--config", str(config))
    assert refused.returncode == 1
    assert "active member" in refused.stderr

    assert application.end(signal.SIGINT) == 0
    said = "".join(application.errors)
    assert "Traceback" not in said
    assert "WARN " not in said  # Spark keeps quiet
    assert "Setting default log level" not in said
    assert "not running" in penstock("status", "--config", str(config)).stdout

    _make_neighbour(brokers, admin)
    dry = penstock("reset", "--config", str(config), "--dry-run")
    assert dry.returncode == 0
    assert "delete topic: walk-counts-changelog" in dry.stdout
    assert "leave topic: walk-eu-counts-changelog (of application walk-eu)" in dry.stdout
    assert "leave topic: walk-us-counts-changelog (its owner is unknown)" in dry.stdout
    assert re.search(r"lines +0 +2 +0\n", dry.stdout)
    assert "walk-counts-changelog" in admin.list_topics(timeout=LIMIT).topics

    refused = penstock("reset", "--config", str(config), "--input-topics", "lines", "--to-offset", "1")
    assert (refused.returncode, "whether walk-us-counts-changelog belong" in refused.stderr) == (1, True)
    assert "walk-counts-changelog" in admin.list_topics(timeout=LIMIT).topics

    own = ",".join(re.findall(r"delete topic: (\S+)", dry.stdout))
    done = penstock(
        *("reset", "--config", str(config), "--input-topics", "lines", "--to-offset", "1", "--internal-topics", own),
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "done"), done.stderr
    left = {topic for topic in admin.list_topics(timeout=LIMIT).topics if topic.startswith("walk-")}
    assert left == {"walk-eu-counts-changelog", "walk-us-counts-changelog"}
    assert not (tmp_path / "walk" / "1_0").exists()

    again = background(*run)
    wait_for_counts(brokers, {**wanted, "hello": 1, "spark": 1}, written + 2, again)  # only the second line
    assert again.end() == 0


def _make_neighbour(brokers: str, admin: AdminClient) -> None:
    """An application `walk-eu` with a group and a store `counts`, and a topic of which nobody knows whose it is."""
    names = ["walk-eu-counts-changelog", "walk-us-counts-changelog"]
    for future in admin.create_topics([NewTopic(name, 1) for name in names]).values():
        future.result(LIMIT)
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "walk-eu"})
    consumer.commit(offsets=[TopicPartition("lines", 0, 1)], asynchronous=False)
    consumer.close()


def _wait_for_status(config: Path, pattern: str) -> str:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        shown = penstock("status", "--config", str(config)).stdout
        if re.search(pattern, shown):
            return shown
    raise AssertionError(f"no {pattern!r} in {shown!r}")


def test_should_count_every_word_of_the_demo_once_and_leave_no_files(tmp_path: Path) -> None:
    done = penstock("demo", "--records", "2000", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 lines (10,000 words)" in done.stdout
    assert "exactly once: every word is counted, none twice" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow  # a broker and Spark of its own
@pytest.mark.parametrize(
    ("example", "shown"), [("wordcount", "word-counts: kafka = 2"), ("orders_customers", "shipments: o2 = a boat")]
)
def test_should_run_an_example_with_its_sample(tmp_path: Path, example: str, shown: str) -> None:
    done = penstock("example", example, "--once", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow  # the whole demo once more
def test_should_end_the_demo_on_a_signal_and_leave_nothing_running(background: Callable[..., Background]) -> None:
    demo = background("demo", "--seconds", "600")
    demo.wait_for(r"counted, [1-9]")
    children = _descendants(demo.process.pid)
    assert children
    address = re.search(r"at (http://localhost:\d+/)", "".join(demo.output))
    assert address is not None
    with urlopen(f"{address[1]}api/app", timeout=LIMIT) as answer:
        assert json.load(answer)["state"] == "RUNNING"
    assert demo.end(signal.SIGINT) == 0
    assert not [pid for pid in children if os.path.exists(f"/proc/{pid}") and _is_alive(pid)]
    assert "exactly once" in "".join(demo.output)


def _descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow  # it waits for one for half a minute
def test_should_say_in_one_sentence_that_no_broker_answers(tmp_path: Path) -> None:
    done = penstock(
        "run", "penstock_examples.wordcount:topology", "-c", "application.id=a", "-c", "bootstrap.servers=127.0.0.1:1"
    )
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
