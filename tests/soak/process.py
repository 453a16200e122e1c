"""One instance of all applications of a soak, in a process of its own, which can be killed like any other.

It is told what to do in lines of JSON, writes what it knows of itself into a file once a second, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penstock import (
    InvalidStateStoreError,
    KafkaStreams,
    QueryableStoreTypes,
    StoreQueryParameters,
    StreamsError,
    StreamThreadExceptionResponse,
)
from penstock.spark.internals import UNANSWERED, active_context
from tests.faults.applications import build_stateless as build_pipe
from tests.soak.applications import APPLICATIONS
from tests.soak.disturbance import Disturbance, OrderedError

_log = logging.getLogger("soak")


class Instance:
    """The applications, their queries, and a victim whose topics may go."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._status = Path(given["status"])
        self._ended = threading.Event()
        self._jobs = 0
        self._queries = {"answered": 0, "refused": 0}
        self._failed_queries: list[str] = []
        self._victim: KafkaStreams | None = None
        disturbance = Disturbance(Path(given["orders"]))
        self._running = {
            name: KafkaStreams(
                APPLICATIONS[kind].build(name, disturbance),
                {**given["config"], "application.id": name, **self._threads(kind)},
            )
            for name, kind in given["applications"].items()
        }
        for streams in self._running.values():
            streams.set_uncaught_exception_handler(_decide)

    @staticmethod
    def _threads(kind: str) -> dict[str, int]:
        return {"num.stream.threads": 2 if kind in ("word-count", "chain", "cogroup") else 1}

    def run(self) -> int:
        """Until told to stop; an application that fails ends the process."""
        signal.signal(signal.SIGTERM, lambda *_: self._ended.set())
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._ask, daemon=True).start()
        threading.Thread(target=self._count_jobs, daemon=True).start()
        for streams in self._running.values():
            streams.start()
        while not self._ended.wait(0.5):
            self._tell()
            failed = {name: repr(streams.failure) for name, streams in self._running.items() if streams.failure is not None}
            if failed:
                _log.error("failed: %s", failed)
                return 1
        closed = [streams.close(60_000) for streams in self._running.values()]
        if self._victim is not None:
            self._victim.close(10_000)
        return 0 if all(closed) else 2

    def _tell(self) -> None:
        status = {
            "states": {name: streams.state.name for name, streams in self._running.items()},
            "victim": None if self._victim is None else self._victim.state.name,
            "jobs": self._jobs,
            "queries": self._queries,
            "failed queries": self._failed_queries[-5:],
        }
        draft = self._status.with_suffix(".draft")
        with contextlib.suppress(OSError):  # the disk may be full
            draft.write_text(json.dumps(status))
            draft.rename(self._status)

    def _count_jobs(self) -> None:
        """Know how many jobs Spark was given since it began; beside all else, since a JVM that stands still does not answer."""
        while not self._ended.wait(10):
            context = active_context()
            try:
                self._jobs = int(context._jsc.sc().dagScheduler().numTotalJobs()) if context is not None else 0
            except (*UNANSWERED, AttributeError):  # the JVM is away
                self._jobs = 0

    def _listen(self) -> None:
        for line in sys.stdin:
            told = json.loads(line)
            try:
                self._do(told)
            except Exception:  # noqa: BLE001 - it stands in the log, and the next one may work
                _log.exception("could not do %s", told)
        os._exit(3)  # whoever has started it is gone

    def _do(self, told: dict[str, Any]) -> None:
        names = sorted(self._running)
        if told["do"] == "victim":
            if self._victim is not None:
                self._victim.close(10_000)
            config = {**self._given["config"], "application.id": told["name"], "num.stream.threads": 1, "num.standby.replicas": 0}
            self._victim = KafkaStreams(build_pipe(told["name"]), config)
            self._victim.start()
            return
        streams = self._running[names[told["choose"] % len(names)]]
        several = len(streams.metadata_for_local_threads()) > 1
        if told["do"] == "add thread" or (told["do"] == "change threads" and not several):
            _log.info("added %s", streams.add_stream_thread())
        elif several:
            _log.info("removed %s", streams.remove_stream_thread(30_000))

    def _ask(self) -> None:
        """Read stores for as long as it runs: they answer or say why not."""
        chance = random.Random(os.getpid())
        kinds = self._given["applications"]
        stores = [(name, store) for name, kind in kinds.items() for store in APPLICATIONS[kind].stores]
        while stores and not self._ended.wait(0.5):
            name, store = chance.choice(stores)
            started = time.monotonic()
            try:
                view: Any = self._running[name].store(
                    StoreQueryParameters(store, QueryableStoreTypes.key_value_store(), stale_stores=chance.random() < 0.5)
                )
                with view.all() as entries:
                    wrong = [(key, value) for key, value in entries if key is None or value is None]
                if wrong:
                    self._failed_queries.append(f"{name} {store}: {wrong[:3]}")
                self._queries["answered"] += 1
            except (InvalidStateStoreError, StreamsError):
                self._queries["refused"] += 1
            except Exception as exc:  # noqa: BLE001 - it is told, and what is wrong is decided by who is told
                _log.exception("a query of %s failed after %.1f s", store, time.monotonic() - started)
                self._failed_queries.append(f"{name} {store}: {exc!r}")


def _decide(error: BaseException) -> StreamThreadExceptionResponse:
    """A thread in which the user's function has raised is replaced; nothing else is expected."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OrderedError) or OrderedError.__name__ in str(cause):
            return StreamThreadExceptionResponse.REPLACE_THREAD
        cause = cause.__cause__
    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    for noisy in ("kafka", "py4j"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    code = Instance(json.loads(sys.argv[1])).run()
    sys.stdout.flush()
    os._exit(code)  # not held up by threads of clients that were killed under


if __name__ == "__main__":
    main()
