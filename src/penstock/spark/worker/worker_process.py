"""The process of a thread: which one it is, and that there is one only.

Spark may give a thread's job to another process than the last one: it retires workers that were idle for a minute, and a job that
was cancelled leaves its function running, for which the next job does not wait. The process before may still have the thread's
stores open, and their folders locked; and where both have become idle, Spark hands out one after the other in turn. So each job
knows who ran the last one, and if that was another process of the thread, it is ended first. Nothing is lost by it: what it has
not committed is done again, and what it did commit is read after it is gone.

Spark may also try a job on another executor, if the thread's executor has been busy for `spark.locality.wait`. Such a job runs
nothing and ends nothing: the thread's own process may be healthy, on the same host.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock.errors import SerializationError, StreamsError
from penstock.spark.internals import is_executor, own_daemon_id, own_executor_id, split_place

VARIABLE = "PENSTOCK_THREAD"

_GONE_SECONDS = 10.0


@dataclass(frozen=True)
class WorkerProcess:
    """A process that has run a job of a thread: the host, its id there, and its daemon's, or 0 where it has none."""

    host: str
    process: int
    daemon: int = 0


class MisplacedError(StreamsError):
    """Spark has tried the job of a thread on another executor, where nothing was run."""


_MISPLACED = b"elsewhere "


def run_in_worker(
    thread: str,
    executor: str | None,
    before: WorkerProcess | None,
    function: Callable[[Iterator[Any]], Iterable[bytes]],
    rows: Iterator[Any],
) -> Iterator[bytes]:
    """What `function` yields first, behind the process that it ran in; called in the worker. See `read_from_worker`."""
    if not is_executor(executor):
        list(rows)
        yield _MISPLACED + own_executor_id().encode()
        return
    here = WorkerProcess(socket.gethostname(), os.getpid(), own_daemon_id() or 0)
    ended = 0
    if before is not None and before.host == here.host and before.process != here.process and not _is_second_attempt():
        ended = before.process if end_process(thread, before.process) else 0
    head = f"{here.process} {here.daemon} {ended} {here.host}\n".encode()
    for data in function(rows):
        yield head + data
        return


def read_from_worker(data: bytes) -> tuple[WorkerProcess, int, bytes]:
    """The process that ran a job, the one it has ended, or 0, and what the job said; MisplacedError if it was run nowhere.

    >>> read_from_worker(b"12 7 0 a.host\\nsaid")
    (WorkerProcess(host='a.host', process=12, daemon=7), 0, b'said')
    """
    if data.startswith(_MISPLACED):
        raise MisplacedError(f"its job came to executor {data.removeprefix(_MISPLACED).decode(errors='replace')}")
    head, _, said = data.partition(b"\n")
    try:
        process, daemon, ended, host = head.decode().split(" ", 3)
        return WorkerProcess(host, int(process), int(daemon)), int(ended), said
    except ValueError as exc:
        raise SerializationError(f"a thread's worker said something without its process: {head[:100]!r}") from exc


def end_process(thread: str, process: int) -> bool:
    """End a process of a thread on this host, and wait until it is gone; False where it is not there, or somebody else's."""
    return _end(thread, process, signal.SIGKILL)


def end_daemon(thread: str, daemon: int) -> bool:
    """The same with the daemon of a thread, which ends its workers."""
    return _end(thread, daemon, signal.SIGTERM)


def end_daemon_on(executor: str, thread: str, daemon: int, rows: Iterator[Any]) -> Iterator[bytes]:
    """The same on another host, called in a worker there that is no thread's; empty where it is another executor's."""
    list(rows)
    if own_executor_id() == split_place(executor)[1]:
        end_daemon(thread, daemon)
        yield b"ended"
    yield b""


def end_left(thread: str, left: WorkerProcess) -> None:
    """End what is left of a thread on this host after the end of its session, and wait until it is gone.

    A daemon that loses its JVM ends its workers and itself at once. One that does not get to it would keep the thread's folders
    locked, and go on with its turn.
    """
    if left.host != socket.gethostname():
        return  # where its executor is, which ends with its driver
    if left.daemon and (is_of_thread(thread, left.daemon) or is_of_thread(thread, left.process)):
        with suppress(OSError):
            os.killpg(left.daemon, signal.SIGKILL)  # all that it has forked
        wait_for_end(left.daemon)
        wait_for_end(left.process)
    else:
        end_process(thread, left.process)


def wait_for_end(process: int) -> None:
    """Until a process of this host is gone, and with it the locks it had."""
    deadline = time.monotonic() + _GONE_SECONDS
    while _is_there(process) and time.monotonic() < deadline:
        time.sleep(0.005)


def _end(thread: str, process: int, ending: int) -> bool:
    if not is_of_thread(thread, process):
        return False
    with suppress(ProcessLookupError):
        os.kill(process, ending)
    wait_for_end(process)
    return True


def is_of_thread(thread: str, process: int) -> bool:
    """Whether a process of this host was made for a thread: ids are used again, so that it is asked for its environment."""
    try:
        return f"{VARIABLE}={thread}".encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except FileNotFoundError:
        if Path("/proc/self/environ").exists():
            return False
    except ProcessLookupError:
        return False
    except OSError:  # it may not be asked
        pass
    try:  # a system without such files: then those of one daemon, which are in its process group
        return os.getpgid(process) in (os.getpgid(0), process)
    except OSError:
        return False


def _is_there(process: int) -> bool:
    """A process that nobody has waited for stays as a name, with its files closed when the last of its threads is gone."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" or len(os.listdir(f"/proc/{process}/task")) > 1
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _is_second_attempt() -> bool:
    """Such a job does no work, and the first attempt may be in the middle of it."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0
