"""A function for topologies that ends the worker it came to at a step of a batch: once for each order that lies in a folder.

An order is a file of the step's name. What it says is done there: nothing or `die` ends the worker, `wait` keeps it for a while.
"""

from __future__ import annotations

import os
import time
from functools import wraps
from pathlib import Path
from typing import Any

from penstock.kafka.produce import ThreadProducer
from penstock.operators.files.sink import FilesProcessor
from penstock.operators.files.staging import StagingFolder
from penstock.spark.worker.active_tasks import ActiveTasks
from penstock.spark.worker.stream_thread import StreamThread

STEPS = ("begun", "produced", "offsets sent", "committed", "store written", "accounted")
FILES = ("staged", "committed", "store written", "files in place", "published")
HAND_OVER = ("opened", "restored", "closed")
WAIT_SECONDS = 3.0


class Words:
    """Splits a line into words. Where it is unpickled, which is in workers, their threads look for orders from then on."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._driver = folder, os.getpid()

    def __call__(self, line: str) -> list[str]:
        return line.split()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if os.getpid() != self._driver:
            obey(self._folder)

    def order(self, step: str) -> Path:
        """Let the next thread that comes to this step die there; what exists once it has."""
        return order(self._folder, step)


class Rows(Words):
    """Makes a row of a number."""

    def __call__(self, line: str) -> Any:
        return {"id": int(line), "kind": f"k{int(line) % 2}"}


def order(folder: Path, step: str, what: str = "die") -> Path:
    """Write an order, in one piece; what exists once it has been carried out."""
    done = folder / f"{step}.done"
    done.unlink(missing_ok=True)
    draft = folder / f"{step}.draft"
    draft.write_text(what)
    draft.rename(folder / step)
    return done


def obey(folder: Path) -> None:
    """Let the threads of this process do what orders in a folder say."""

    def reached(step: str) -> None:
        done = folder / f"{step}.done"
        try:
            (folder / step).rename(done)
        except FileNotFoundError:
            return
        if done.read_text() != "wait":
            os._exit(9)
        time.sleep(WAIT_SECONDS)

    def commit_in_steps(commit: Any) -> Any:
        @wraps(commit)
        def stepwise(producer: ThreadProducer, *arguments: Any) -> None:
            producer._producer.flush(30)
            reached("produced")
            commit(producer, *arguments)
            reached("committed")

        return stepwise

    def after(step: str, function: Any) -> Any:
        @wraps(function)
        def followed(*arguments: Any) -> Any:
            found = function(*arguments)
            reached(step)
            return found

        return followed

    def before(step: str, function: Any) -> Any:
        @wraps(function)
        def preceded(*arguments: Any) -> Any:
            reached(step)
            return function(*arguments)

        return preceded

    if hasattr(ThreadProducer.commit, "__wrapped__"):
        return
    ThreadProducer.begin = after("begun", ThreadProducer.begin)  # type: ignore[method-assign]
    ThreadProducer.commit = commit_in_steps(ThreadProducer.commit)  # type: ignore[method-assign]
    ThreadProducer._send_offsets = after("offsets sent", ThreadProducer._send_offsets)  # type: ignore[method-assign]
    ActiveTasks.post_commit = after("store written", ActiveTasks.post_commit)  # type: ignore[method-assign]
    ActiveTasks._open = after("opened", ActiveTasks._open)  # type: ignore[method-assign]
    ActiveTasks.restore = after("restored", ActiveTasks.restore)  # type: ignore[method-assign]
    ActiveTasks._close = after("closed", ActiveTasks._close)  # type: ignore[method-assign]
    FilesProcessor.before_commit = after("staged", FilesProcessor.before_commit)  # type: ignore[method-assign]
    StagingFolder.mark_published = before("files in place", StagingFolder.mark_published)  # type: ignore[method-assign]
    FilesProcessor._publish = after("published", FilesProcessor._publish)  # type: ignore[method-assign]
    # The batch before is done.
    StreamThread._batch = before("accounted", StreamThread._batch)  # type: ignore[method-assign]
