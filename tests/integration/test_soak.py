"""A long time under load, with a thread added and removed every minute: nothing lost, nothing doubled, memory flat.

`PENSTOCK_SOAK_MINUTES` says how long (default 30), `PENSTOCK_SOAK_RATE` how many records a second (default 500);
`PENSTOCK_SOAK_REPORT` names a file for the figures, which are printed in any case.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.harness.kafka import Kafka, unique, wait_until
from tests.integration.helpers import topics
from tests.integration.topologies import word_count

Run = Callable[..., Any]
MINUTES = float(os.environ.get("PENSTOCK_SOAK_MINUTES", "30"))
RATE = int(os.environ.get("PENSTOCK_SOAK_RATE", "500"))
WORDS = [f"w{n}" for n in range(100)]
_QUIET = {"log_level": 2}


class Load(threading.Thread):
    """Feeds lines of three words at a steady rate, and remembers how often each word was sent."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({**_QUIET, "bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 20})
        self._topic = topic
        self.sent: Counter[str] = Counter()
        self.ended = threading.Event()

    def run(self) -> None:
        line, started = 0, time.monotonic()
        while not self.ended.wait(0.05):
            while line < (time.monotonic() - started) * RATE:
                words = [WORDS[(line * step) % len(WORDS)] for step in (1, 7, 13)]
                self._producer.produce(self._topic, " ".join(words).encode(), str(line).encode())
                self.sent.update(words)
                line += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


class Reader(threading.Thread):
    """Reads the committed counts and checks that each word's are 1, 2, 3 … without a gap or a repetition."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                **_QUIET,
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": unique("soak-reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])
        self.seen: Counter[str] = Counter()
        self.wrong: list[tuple[str, int, int]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            for message in self._consumer.consume(1000, 0.5):
                if message.error() is None:
                    word, count = message.key().decode(), int.from_bytes(message.value(), "big")
                    if count != self.seen[word] + 1:
                        self.wrong.append((word, self.seen[word], count))
                    self.seen[word] = count
        self._consumer.close()


@pytest.mark.slow
def test_should_lose_and_double_nothing_while_threads_come_and_go(
    kafka: Kafka, spark: Any, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = topics(kafka, "lines", "counts", partitions=4)
    config = {
        "application.id": unique("soak"),
        "processing.guarantee": "exactly_once_v2",
        "num.stream.threads": 1,
        "task.spread": "always",
        "commit.interval.ms": 100,
    }
    streams = run(word_count(source, out), config)
    load, reader = Load(kafka, source), Reader(kafka, out)
    load.start()
    reader.start()
    figures: list[dict[str, Any]] = []
    deadline, changes = time.monotonic() + MINUTES * 60, 0
    while time.monotonic() < deadline:
        threads = len(streams._threads.alive())
        change = streams.add_stream_thread if threads == 1 else streams.remove_stream_thread
        assert change() is not None
        changes += 1
        figures.append({"minute": round((time.monotonic() - deadline) / 60 + MINUTES, 1), **memory(spark)})
        figures[-1] |= {"threads": len(streams._threads.alive()), "read": sum(reader.seen.values())}
        time.sleep(min(30.0, max(0.0, deadline - time.monotonic())))
    load.ended.set()
    load.join()
    wait_until(lambda: reader.wrong or reader.seen == load.sent, "everything is counted", 300)
    reader.ended.set()
    reader.join()
    with capsys.disabled():
        report(figures, sum(load.sent.values()), changes)
    assert reader.wrong == []
    assert reader.seen == load.sent
    assert streams.failure is None
    _assert_flat(figures)


def memory(spark: Any) -> dict[str, Any]:
    """Resident megabytes of the driver, its JVM, and the largest worker."""
    jvm = spark.sparkContext._gateway.proc.pid
    parents = {int(p.name): _stat(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    below, found = {jvm}, True
    while found:
        found = {pid for pid, parent in parents.items() if parent in below and pid not in below}
        below |= found
    workers = sorted(_rss(pid) for pid in below if pid != jvm)
    return {"driver": _rss(os.getpid()), "jvm": _rss(jvm), "worker": workers[-1] if workers else 0, "workers": len(workers)}


def report(figures: list[dict[str, Any]], words: int, changes: int) -> None:
    """Print the figures, and write them where asked to."""
    print(f"\n{words} words in {MINUTES:.0f} minutes, {changes} changes of threads; megabytes:")
    for figure in figures:
        print("  " + ", ".join(f"{name} {value}" for name, value in figure.items()))
    if os.environ.get("PENSTOCK_SOAK_REPORT"):
        Path(os.environ["PENSTOCK_SOAK_REPORT"]).write_text("\n".join(map(json.dumps, figures)) + "\n")


def _assert_flat(figures: list[dict[str, Any]]) -> None:
    """The last third of a long run needs no more than the second one, give or take."""
    third = len(figures) // 3
    if third >= 5:
        for name in ("driver", "worker"):
            before, after = (median(f[name] for f in part) for part in (figures[third : 2 * third], figures[2 * third :]))
            assert after < before * 1.2 + 20, f"{name}: {before} -> {after} MB"


def _stat(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _rss(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
        return int(fields[0]) // 1024
    except (OSError, IndexError):
        return 0
