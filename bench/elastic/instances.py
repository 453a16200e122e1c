"""Instances of an application as processes of their own: penstock's and Kafka Streams', which talk alike."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.kafka_streams import _PROJECT, _class_path
from bench.processes import end_session


class Instance:
    """A process that runs one instance; ended by closing its input, or killed with all the processes it has started."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None,
        log: Path,
        on_restored: Callable[[int], None],
        on_placed: Callable[[dict[int, str]], None],
    ) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self._on_restored, self._on_placed = on_restored, on_placed
        self.is_running = False
        self.failures = 0
        self.tasks: frozenset[str] = frozenset()
        self.standbys: frozenset[str] = frozenset()
        self.executors: list[str] = []
        self.processed = 0
        self.jvm = 0
        self.is_gone = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to close, and wait for that."""
        assert self._process.stdin is not None
        self.is_gone = True
        if self.is_alive:
            self._process.stdin.close()
            self._process.wait(90)

    def kill(self) -> None:
        """kill -9, as when its machine is lost."""
        self.is_gone = True
        end_session(self._process.pid)
        self._process.wait()
        self._reader.join(10)

    def kill_jvm(self) -> None:
        """kill -9 of the JVM of its Spark."""
        os.kill(self.jvm, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *words = line.split() or [""]
            if what == "RUNNING":
                self.is_running = True
            elif what == "FAILED":
                self.failures += 1
            elif what == "RESTORED":
                self._on_restored(int(words[0]))
            elif what == "TASKS":
                self.tasks = frozenset(words)
            elif what == "STANDBYS":
                self.standbys = frozenset(words)
            elif what == "EXECUTORS":
                self.executors = words
            elif what == "JVM":
                self.jvm = int(words[0])
            elif what == "PROCESSED":
                self.processed = int(words[0])
            elif what == "PLACES":
                self._on_placed({int(task.rpartition("_")[2]): at for task, _, at in (word.partition("=") for word in words)})


class Library:
    """How instances of one of the two are started."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self._command = name, command

    def start(
        self,
        application: str,
        brokers: str,
        folder: Path,
        settings: Mapping[str, Any],
        on_restored: Callable[[int], None],
        environment: Mapping[str, str] | None = None,
        on_placed: Callable[[dict[int, str]], None] = lambda _: None,
    ) -> Instance:
        """Start an instance; returns at once."""
        folder.mkdir(parents=True, exist_ok=True)
        arguments = [application, brokers, str(folder), f"{application}-in", f"{application}-out"]
        given = [f"{key}={value}" for key, value in settings.items()]
        return Instance([*self._command, *arguments, *given], environment, folder / "log.txt", on_restored, on_placed)


def penstock() -> Library:
    """This tree."""
    return Library("penstock", [sys.executable, "-m", "bench.elastic.instance"])


def troubled() -> Library:
    """This tree, with an application that has trouble in one task."""
    return Library("penstock", [sys.executable, "-m", "bench.elastic.troubled"])


def kafka_streams() -> Library:
    """Kafka Streams (Java), built where it has to be."""
    return Library("Kafka Streams", ["java", "-cp", f"{_PROJECT}/target/classes:{_class_path()}", "bench.Elastic"])
