"""Start WordCount in a process of its own on a cluster, follow its turns, and check what it counted."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.harness.cluster import Cluster
from tests.harness.kafka import Kafka, Message, unique, wait_until
from tests.harness.waiting import LIMIT

_APP = Path(__file__).parent / "apps" / "word_count.py"

_USERS_MODULE = """
def words(line):
    return line.split()


def by_word(_, word):
    return word
"""


class Steady:
    """Writes a line every so often and looks how long no count is written; also a context manager."""

    def __init__(self, run: ClusterRun, every: float = 0.05) -> None:
        self._run, self._every = run, every
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._feed, self._look)]
        self._written = 0
        self._since = time.monotonic()
        self.silence = 0.0
        """The longest time in which no count was written."""

    def __enter__(self) -> Steady:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(LIMIT)

    def begin(self) -> None:
        """Measure from now on."""
        self.silence, self._since = 0.0, time.monotonic()

    def _feed(self) -> None:
        seed = 0
        while not self._ended.wait(self._every):
            seed += 1
            self._run.feed(1, seed)

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            written, now = self._run.written(), time.monotonic()
            if written > self._written:
                self._written, self._since = written, now
            self.silence = max(self.silence, now - self._since)


class ClusterRun:
    """One application on a cluster, with topics of its own; also a context manager."""

    def __init__(
        self,
        cluster: Cluster,
        kafka: Kafka,
        folder: Path,
        store: str = "rocksdb",
        given: bool = False,
        config: Mapping[str, Any] | None = None,
        partitions: int = 2,
    ) -> None:
        self._config = dict(config or {})
        self._cluster, self._kafka, self._folder, self._store, self._given = cluster, kafka, folder, store, given
        self.lines, self.counts, self.application_id = unique("lines"), unique("counts"), unique("cluster")
        self.told: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.expected: Counter[str] = Counter()
        kafka.create(self.lines, self.counts, partitions=partitions)
        self._users_module = folder / "wordshop.zip"
        with zipfile.ZipFile(self._users_module, "w") as archive:
            archive.writestr("wordshop.py", _USERS_MODULE)

    def __enter__(self) -> ClusterRun:
        config = {
            **self._cluster.settings,
            "application.id": self.application_id,
            "bootstrap.servers": self._kafka.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(self._folder / "state"),
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 20,
            "num.stream.threads": 2,
            "task.spread": "always",  # so little load would stay together in one thread
            "batch.max.records": 100,
            **self._config,
        }
        config = {key: value for key, value in config.items() if value is not None or not key.startswith("spark.")}
        if not self._given:
            config["spark.submit.pyFiles"] = str(self._users_module)
            config["spark.archives"] = f"{self._packed_python()}#env"
            config["spark.pyspark.python"] = "./env/bin/python"
        arguments = {
            "config": config,
            "topics": [self.lines, self.counts],
            "store": self._store,
            "add_py_file": str(self._users_module) if self._given else None,
        }
        path = (str(self._users_module), os.environ.get("PYTHONPATH"))
        self._process = subprocess.Popen(
            [sys.executable, str(_APP), json.dumps(arguments)],
            env={**self._cluster.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_told, self._read_errors)]
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(LIMIT)
        finally:
            self._process.kill()
            self._process.wait()
            for reader in self._readers:
                reader.join(LIMIT)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()

    def _packed_python(self) -> Path:
        """An interpreter that is sent along, as a packed environment is; ours only leads to the one that runs the tests."""
        python = self._folder / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        packed = self._folder / "env.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(python, "bin/python")
        return packed

    # -- what the application did --------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[dict[str, Any]]:
        """All turns so far."""
        return self._of("turn")

    @property
    def restored(self) -> int:
        """How many records of changelogs have been read back so far."""
        return sum(told["restored"] for told in self._of("batch") + self._of("restored"))

    @property
    def states(self) -> list[str]:
        """The states of the application so far."""
        return [told["state"] for told in self._of("state")]

    def wait_for_end(self) -> None:
        """Until the application has ended by itself."""
        self._process.wait(LIMIT)
        for reader in self._readers:
            reader.join(LIMIT)

    def copied(self) -> int | None:
        """How many records the copies of state are behind, all together; None before the first was heard of."""
        last = {told["partition"]: told["lag"] for told in self._of("copied")}
        return sum(last.values()) if last else None

    def places(self, since: int = 0) -> dict[str, list[tuple[str, str]]]:
        """Executor and worker of each thread, turn by turn."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for turn in self.turns[since:]:
            for worker, (executor, worker) in turn["threads"].items():
                found[worker].append((executor, worker))
        return dict(found)

    def last_places(self) -> dict[str, tuple[str, str]]:
        """Executor and worker of each thread in its last turn."""
        return {worker: seen[-1] for worker, seen in self.places().items()}

    def feed(self, lines: int, seed: int = 0) -> None:
        """Write so many lines of three words out of forty."""
        texts = [" ".join(f"w{(seed + 7 * i + j * j) % 40}" for j in range(3)) for i in range(lines)]
        self.expected.update(word for text in texts for word in text.split())
        now = int(time.time() * 1000)  # old records would be deleted by the topic's retention
        self._kafka.feed(self.lines, [Message(str(i).encode(), text.encode(), now) for i, text in enumerate(texts)])

    def wait(self, condition: Any, what: str, timeout: float = LIMIT, interval: float = 0.05) -> None:
        """Until the condition holds; what the application said where it does not, or where the application ended."""

        def holds() -> bool:
            assert self._process.poll() is None, f"the application ended: {self.words()}"
            return bool(condition())

        try:
            wait_until(holds, what, timeout, interval)
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self.words()}\n{self._cluster.logs()}") from exc

    def wait_for_counts(self) -> None:
        """Until every line has been counted, and check it: every word was counted 1, 2, 3 ... without a gap or a repeat."""
        total = sum(self.expected.values())
        self.wait(lambda: self._has_counts(total), f"{total} counts are written", interval=0.5)
        found: dict[str, list[int]] = defaultdict(list)
        for message in self._kafka.read(self.counts):
            assert message.key is not None
            assert message.value is not None
            found[message.key.decode()].append(struct.unpack(">q", message.value)[0])
        assert found == {word: list(range(1, count + 1)) for word, count in self.expected.items()}

    def written(self) -> int:
        """How much lies in the topic of counts, committed."""
        return sum(self._kafka.ends(self.counts).values())

    def has_counted_all(self) -> bool:
        """Whether each word was counted as often as it was written at least."""
        found = {m.key.decode(): struct.unpack(">q", m.value)[0] for m in self._kafka.read(self.counts) if m.key and m.value}
        return all(found.get(word, 0) >= count for word, count in self.expected.items())

    def ask(self, what: str, **details: Any) -> Any:
        """What the application answers from its state."""
        before = len(self._of("answer"))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"ask": what, **details}) + "\n")
        self._process.stdin.flush()
        self.wait(lambda: len(self._of("answer")) > before, f"an answer to {what}")
        return self._of("answer")[before]["found"]

    def wait_for_executors(self, count: int) -> None:
        """Feed a little now and then until the threads are on so many executors."""
        deadline = time.monotonic() + LIMIT
        while len({executor for executor, _ in self.last_places().values()}) != count:
            assert time.monotonic() < deadline, f"the threads are not on {count} executors: {self.words()}"
            self.feed(40)
            self.wait_for_counts()

    def words(self) -> str:
        """The end of what the application said."""
        return "\n".join([*map(str, self.told[-15:]), *self.errors[-60:]])

    def _has_counts(self, total: int) -> bool:
        ends = self._kafka.ends(self.counts)  # cheaper than reading it all, and never less: transactions leave markers
        return sum(ends.values()) >= total and len(self._kafka.read(self.counts)) >= total

    def _of(self, what: str) -> list[dict[str, Any]]:
        return [told for told in list(self.told) if told["what"] == what]

    def _read_told(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.told.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors.append(line.rstrip())
