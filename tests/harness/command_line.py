"""Commands as a user types them, in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.harness.waiting import LIMIT

ROOT = Path(__file__).parents[2]
PENSTOCK = [sys.executable, "-m", "penstock.cli"]
TIMEOUT = LIMIT


def penstock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


class Background:
    """A command that runs until it is told to end; what it says is kept."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*PENSTOCK, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.output: list[str] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=kept.extend, args=(stream,), daemon=True)
            for stream, kept in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            match = re.search(pattern, "".join(self.output + self.errors))
            if match is not None:
                return match
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in {''.join(self.output + self.errors)!r}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(LIMIT)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def counts(brokers: str) -> list[tuple[str, int]]:
    """All counts that were ever written and committed."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("word-counts", 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append((message.key().decode(), int.from_bytes(message.value(), "big")))
    consumer.close()
    return found


def wait_for_counts(brokers: str, wanted: dict[str, int], number: int, application: Background) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and application.process.poll() is None:
        found = counts(brokers)
        if len(found) >= number and dict(found) == wanted:
            return
        time.sleep(0.2)
    raise AssertionError(f"{counts(brokers)} is not {wanted}: {''.join(application.errors)}")
