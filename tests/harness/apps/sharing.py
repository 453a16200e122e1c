"""Applications that share a process and its SparkSession with the user: told what to do in lines of JSON, answers in such lines.

It makes a session first where it is told to, as a notebook does, and ends when its input does.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock import KafkaStreams
from penstock.client.inside import inside
from tests.integration.topologies import count_by_key

LOG: list[str] = []


class Kept(logging.Handler):
    """Keeps what was logged."""

    def emit(self, record: logging.LogRecord) -> None:
        LOG.append(record.getMessage())


class Sharing:
    """One method for each thing that can be asked for."""

    def __init__(self) -> None:
        self.session: SparkSession | None = None
        self.applications: dict[str, KafkaStreams] = {}

    def make_session(self, settings: dict[str, str]) -> None:
        builder = SparkSession.builder.appName("the user's")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.session = builder.getOrCreate()

    def stop_session(self) -> None:
        assert self.session is not None
        self.session.stop()

    def kill_jvm(self) -> None:
        """kill -9; returns when it is gone."""
        process = SparkContext._gateway.proc  # type: ignore[union-attr]
        process.kill()
        process.wait()

    def settings(self) -> dict[str, str]:
        """What the user's session has: its own settings, and those of its context."""
        assert self.session is not None
        return {**self.session.conf.getAll, **dict(self.session.sparkContext.getConf().getAll())}

    def count(self) -> int:
        """A job of the user's."""
        assert self.session is not None
        return self.session.range(7).count()

    def has_session(self) -> bool:
        return SparkContext._active_spark_context is not None

    def start(self, name: str, config: dict[str, Any], topics: list[str]) -> None:
        streams = self.applications[name] = KafkaStreams(count_by_key(*topics), config)
        streams.start()

    def close(self, name: str) -> bool:
        return self.applications[name].close(120_000)

    def state(self, name: str) -> str:
        return self.applications[name].state.name

    def table(self, name: str) -> dict[str, int]:
        """What the application's store has, read by Spark."""
        return {row["key"]: row["value"] for row in self.applications[name].store_dataframe("counts").collect()}

    def failure(self, name: str) -> str:
        return repr(self.applications[name].failure)

    def places(self, name: str) -> list[str]:
        """The executors where an application has tasks."""
        jobs = inside(self.applications[name]).spark_threads
        return sorted({str(jobs.workers[thread].executor) for thread in jobs.working})

    def waiting(self, name: str) -> list[bool]:
        threads = self.applications[name].metadata_for_local_threads()
        return [thread.waiting_for_core_since is not None for thread in threads]

    def log(self) -> list[str]:
        return list(LOG)

    def occupy(self, folder: str, tasks: int) -> None:
        """A job of the user's whose tasks each go on until they are let go."""
        assert self.session is not None
        rows = self.session.sparkContext.parallelize(range(tasks), tasks)
        threading.Thread(target=rows.foreach, args=(lambda number: hold(folder, number),), daemon=True).start()


def hold(folder: str, number: int) -> None:
    Path(folder, f"begun-{number}").touch()
    while not Path(folder, f"go-{number}").exists():
        time.sleep(0.05)


def main() -> None:
    logging.getLogger("penstock").addHandler(Kept())
    logging.getLogger("penstock").setLevel(logging.INFO)
    sharing = Sharing()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"answer": getattr(sharing, asked.pop("do"))(**asked)}
        except Exception as exc:  # noqa: BLE001 - the test sees it
            answer = {"error": repr(exc)}
        print(json.dumps(answer), flush=True)
    for streams in sharing.applications.values():
        streams.close(30_000)


if __name__ == "__main__":
    main()
