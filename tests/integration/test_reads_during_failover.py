"""The CQRS example on two instances: one is killed while readers ask the other."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT

_ROOT = Path(__file__).parents[2]
ACCOUNTS = [f"reader-{number:02}" for number in range(24)]


class Instance:
    """A process of the example, with an address of its own."""

    def __init__(self, kafka: Kafka, application: str, folder: Path) -> None:
        self.port = free_port()
        settings = {
            "application.id": application,
            "num.standby.replicas": "1",
            "num.stream.threads": "1",
            "commit.interval.ms": "20",
            "consumer.session.timeout.ms": "6000",
            "consumer.heartbeat.interval.ms": "1000",
            "spark.master": "local[1]",
        }
        arguments = [kafka.bootstrap_servers, f"localhost:{self.port}", str(folder), *(f"{k}={v}" for k, v in settings.items())]
        self._log = folder.with_suffix(".log")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock_examples.accounts", *arguments],
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                start_new_session=True,
            )

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON; 0 where nobody answers."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=LIMIT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.load(response)
        except (OSError, http.client.HTTPException) as exc:
            return 0, repr(exc)
        finally:
            connection.close()

    def wait(self, condition: Any, what: str, timeout: float = LIMIT) -> None:
        def holds() -> bool:
            assert self.process.poll() is None, self._log.read_text(errors="replace")[-3000:]
            return bool(condition())

        try:
            wait_until(holds, what, timeout, 0.2)
        except AssertionError as exc:
            app = self.get("/api/app")[1]
            told = {name: app.get(name) for name in ("state", "tasks", "instances", "restoring", "errors")} if app else app
            raise AssertionError(f"{exc}: {told}\n{self._log.read_text(errors='replace')[-3000:]}") from exc

    def kill(self) -> None:
        """At once, with its JVM and its workers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()


class Reader:
    """Asks for one account after the other until it is stopped, and judges what it is told.

    Each account gets one cent after the other: what is read is never more than was fed, and never less than what was read before
    unless it says that it is stale.
    """

    def __init__(self, instance: Instance, fed: Counter[str], query: str = "") -> None:
        self._instance, self._fed, self._query = instance, fed, query
        self._seen: Counter[str] = Counter()
        self._stop = threading.Event()
        self.statuses: Counter[str] = Counter()
        self.reasons: set[str] = set()
        self.wrong: list[str] = []
        self.longest = 0.0
        self._answered = dict.fromkeys(ACCOUNTS, time.monotonic())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Reader:
        self._stop.set()
        self._thread.join(LIMIT)
        return self

    def __str__(self) -> str:
        told = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        return f"{self._query or 'plain'}: {told}; longest time without an answer for an account {self.longest:.1f} s"

    def _run(self) -> None:
        while not self._stop.is_set():
            for account in ACCOUNTS:
                self._ask(account)
                time.sleep(0.002)

    def _ask(self, account: str) -> None:
        status, found = self._instance.get(f"/api/stores/balances/keys/{account}{self._query}")
        fed, stale = self._fed[account], status == 200 and found.get("stale", False)
        self.statuses["stale" if stale else str(status)] += 1
        if status == 200:
            value, before = found["value"], self._seen[account]
            if value > fed or (value < before and not stale):
                self.wrong.append(f"{account}: {value}, fed {fed}, seen before {before}, {found}")
            if not stale:
                self._seen[account] = value
            now = time.monotonic()
            self.longest = max(self.longest, now - self._answered[account])
            self._answered[account] = now
        elif status == 503:
            self.reasons.add(found["error"])
        else:
            self.wrong.append(f"{account}: {status} {found}")


@pytest.mark.slow  # two processes with a Spark of their own, and the session timeout of the group
def test_should_go_on_reading_while_an_instance_is_killed(
    kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "transfers" not in kafka.topics():
        kafka.create("transfers", partitions=4)
    application, fed = unique("accounts"), Counter[str]()

    def feed() -> None:
        fed.update(ACCOUNTS)  # first: a reader may see it before this returns
        now = int(time.time() * 1000)
        kafka.feed("transfers", [Message(account.encode(), (1).to_bytes(8, "big"), now) for account in ACCOUNTS])

    first = Instance(kafka, application, tmp_path / "first")
    instances = [first]
    readers: list[Reader] = []
    try:
        first.wait(lambda: first.get("/api/app")[1] and first.get("/api/app")[0] == 200, "the first serves")
        instances.append(second := Instance(kafka, application, tmp_path / "second"))
        feed()
        for instance in instances:
            instance.wait(lambda instance=instance: is_settled(instance), "both have tasks, and copies of the other's")
            instance.wait(lambda instance=instance: balances(instance) == dict(fed), "all is counted")
        readers = [Reader(second, fed), Reader(second, fed, "?stale=true")]
        for _ in range(20):
            feed()
            time.sleep(0.2)
        first.kill()
        killed = time.monotonic()
        for _ in range(20):
            feed()
            time.sleep(0.2)
        second.wait(lambda: balances(second) == dict(fed), "the other has all of it")
        took = time.monotonic() - killed
        for reader in readers:
            reader.stop()
        with capsys.disabled():
            print(f"\nreads during a fail-over, right again {took:.1f} s after the kill", *readers, sep="\n  ")
        assert [reader.wrong for reader in readers] == [[], []]
        plain, stale = readers
        assert plain.statuses["stale"] == 0
        assert plain.reasons, "the reader was told why"
        assert stale.statuses["stale"] > 0
        assert stale.longest < plain.longest
    finally:
        for reader in readers:
            reader.stop()
        for instance in instances:
            instance.kill()


def is_settled(instance: Instance) -> bool:
    status, app = instance.get("/api/app")
    if status != 200 or app["state"] != "RUNNING":
        return False
    roles = Counter(task["role"] for task in app["tasks"])
    return roles == {"active": 2, "standby": 2} and all(task["lag"] == 0 for task in app["tasks"])


def balances(instance: Instance) -> dict[str, int]:
    status, page = instance.get("/api/stores/balances/range?from=reader-&to=reader-~&limit=1000")
    return {entry["key"]: entry["value"] for entry in page["entries"]} if status == 200 else {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
