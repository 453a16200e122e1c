"""What a thread's worker is doing now, for who asks on another thread while a turn runs.

A turn notes its steps as they begin, a handful of assignments. Which task and which operator run, and at which line of the user's
code, is read off the stack of the thread that runs the turn, and only when somebody asks: a record costs nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from penstock.ids import TaskId
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.nodes import Node
from penstock.runtime.record_queue import RecordQueue
from penstock.runtime.state_manager import ProcessorStateManager
from penstock.runtime.store_context import AbstractTaskContext
from penstock.runtime.task import StreamTask
from penstock.runtime.timers import Timers
from penstock.user_code import added_at, is_of_penstock, shown_path

_LONGEST = 300
_DEEPEST = 2_000

_STANDARD = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages", "pyspark.zip", "py4j-")


class Doing(NamedTuple):
    """What a worker did at one moment. Texts are empty, and the line 0, where they cannot be told.

    `step` is the part of a turn (open, restore, fetch, process, punctuate, commit, store), and empty between two turns; `node`
    the operator, and `added` the line that added it. `function`, `file` and `line` are the innermost place in the user's code;
    where there is none on the stack, in penstock's or a library's.
    """

    step: str = ""
    task: str = ""
    node: str = ""
    added: str = ""
    function: str = ""
    file: str = ""
    line: int = 0

    @classmethod
    def told(cls, said: Any) -> Doing | None:
        """What another process has told of itself; None for anything else."""
        if not isinstance(said, (tuple, list)) or [type(part) for part in said] != [str] * 6 + [int]:
            return None
        return cls._make(part[:_LONGEST] if isinstance(part, str) else part for part in said)

    def __str__(self) -> str:
        """It as the log tells it.

        >>> str(Doing("process", "0_1", "KSTREAM-MAPVALUES-0000000002", "", "slow", "/elsewhere/app.py", 12))
        'task 0_1 in KSTREAM-MAPVALUES-0000000002, at slow() (/elsewhere/app.py:12)'
        >>> str(Doing("commit", function="flush", file="/elsewhere/produce.py", line=284))
        'commit, at flush() (/elsewhere/produce.py:284)'
        >>> str(Doing())
        'nothing: it waits for records, or for Spark'
        """
        if not self.step:
            return "nothing: it waits for records, or for Spark"
        task = f"task {self.task}" if self.task else ""
        if self.task == str(GLOBAL_TASK_ID):
            task = "the global tables"
        # What is usual goes without saying.
        what = task if task and self.step == "process" else f"{self.step} of {task}" if task else self.step
        node = f" in {self.node}{added_at(self.added)}" if self.node else ""
        place = f", at {self.function}() ({shown_path(self.file)}:{self.line})" if self.function else ""
        return what + node + place


class CurrentWork:
    """Where the thread that runs a thread's turns notes its steps, and others ask."""

    def __init__(self) -> None:
        self.step = ""
        """The step that has begun; set by the thread that runs the turn."""
        self.begun = threading.Event()
        """Set whenever a turn begins; who waits for that clears it."""
        self._thread = 0

    @contextmanager
    def turn(self, step: str) -> Iterator[None]:
        """A turn of this thread, beginning with a step; nothing is done when it has ended."""
        self._thread, self.step = threading.get_ident(), step
        self.begun.set()
        try:
            yield
        finally:
            self.step = ""

    def now(self) -> Doing:
        """What is done at this moment; asked by any thread."""
        step = self.step
        if not step:
            return Doing()
        return _seen(step, sys._current_frames().get(self._thread))


def _seen(step: str, frame: FrameType | None) -> Doing:
    """Look through a stack from the inside out, as far as a turn goes. It runs on meanwhile: what is gone is not told."""
    task = node = added = ""
    users = others = None
    is_punctuator = False
    for _ in range(_DEEPEST):
        if frame is None or _is_frame_of_turn(frame):
            break
        if is_of_penstock(frame):
            seen_task, seen_node = _runs(frame)
            task = task or ("" if seen_task is None else str(seen_task))
            if seen_node is not None and not node:
                node, added = seen_node.name, seen_node.added_at
            is_punctuator |= frame.f_code is Timers._punctuate.__code__
            others = others or _place(frame)
        elif not _is_standard(frame):
            others = others or _place(frame)
            if not _is_installed(frame):
                users = users or _place(frame)
        frame = frame.f_back
    function, file, line = users or others or ("", "", 0)
    texts = ("punctuate" if is_punctuator else step, task, node, added, function, file)
    return Doing._make((*(text[:_LONGEST] for text in texts), line))


def _runs(frame: FrameType) -> tuple[TaskId | None, Node | None]:
    """The task and the node that a frame of the runtime tells of."""
    local = frame.f_locals
    itself = local.get("self")
    if isinstance(itself, Node):
        return None, itself
    if isinstance(itself, RecordQueue):  # it deserializes for its source
        return None, itself.source
    if isinstance(itself, AbstractTaskContext):
        return itself.task_id, itself.current_node
    if isinstance(itself, StreamTask):
        return itself.task_id, itself.context.current_node
    if isinstance(itself, ProcessorStateManager):
        return itself.task_id, None
    task = local.get("task_id")
    return task if isinstance(task, TaskId) else None, None


def _place(frame: FrameType) -> tuple[str, str, int]:
    return frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0


def _is_frame_of_turn(frame: FrameType) -> bool:
    """The steps of a turn: further out is what began it."""
    return frame.f_globals.get("__name__") == "penstock.spark.worker.stream_thread"


def _is_standard(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith("<frozen") or (file.startswith(_STANDARD) and not _is_installed(frame))


def _is_installed(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in _INSTALLED)
