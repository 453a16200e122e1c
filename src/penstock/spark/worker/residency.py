"""What Spark runs in the Python worker of a stream thread: residencies, and the end of the thread.

The module is imported by name in the worker, so `_THREADS` lives as long as the process does; a global of `__main__` would be
pickled by value and be new in every Spark task.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from penstock.errors import StreamsError, TaskMigratedError
from penstock.log_lines import kept_lines
from penstock.spark.hosts import host_of
from penstock.spark.internals import cloudpickle, own_executor_id
from penstock.spark.messages import Application, Failure, Residency, ThreadReport
from penstock.spark.reports import write_report
from penstock.spark.worker.stream_thread import StreamThread
from penstock.state.directory import site_here
from penstock.wire import Codec

# A thread takes 8 MB of address space for its stack, and 64 MB for what it allocates.
_NEXT_TO_NOTHING = 128 << 20

_THREADS: dict[tuple[str, int], StreamThread] = {}


def run_residency(residency: Residency, rows: Iterator[Any]) -> Iterator[bytes]:
    """One residency of a stream thread; yields its last report. `rows` is one row that means nothing."""
    list(rows)
    logs, failure = kept_lines(), None
    thread: StreamThread | None = None
    try:
        _refuse_second_attempts()
        thread = _thread_for(residency)
        if thread is not None:
            thread.run(residency)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - the driver decides on every failure; SystemExit too
        failure = Failure.of(_explained(exc, residency.thread))
    report = ThreadReport() if thread is None else thread.take_report()
    if failure is not None:
        _drop(residency)
    worker, executor = f"{socket.gethostname()}:{os.getpid()}", own_executor_id()
    address, site = (None, "") if thread is None else (thread.queries.address, site_here())
    yield write_report(
        replace(
            report,
            worker=worker,
            executor=executor,
            query_address=address,
            site=site,
            lost=thread is None and failure is None,
            failure=failure,
            logs=logs.take(),
        )
    )


def close_thread(key: str, thread: int, rows: Iterator[Any]) -> Iterator[bytes]:
    """Close what a stream thread keeps open."""
    list(rows)
    found = _THREADS.pop((key, thread), None)
    if found is not None:
        found.close()
        kept_lines().spill()
    yield b""


def _thread_for(residency: Residency) -> StreamThread | None:
    """The thread of a residency; None if this process is new and the residency has tasks.

    Their offsets were read before this process had a producer, so what an earlier process has committed since is not in them.
    """
    thread = _THREADS.get((residency.key, residency.thread))
    if thread is not None and thread.is_closed:  # it was to go elsewhere, and has come back
        _THREADS.pop((residency.key, residency.thread)).close()
        thread = None
    if thread is None and residency.tasks:
        return None
    if thread is None:
        application = residency.key.rpartition("#")[0]
        for key in [k for k in _THREADS if k[1] == residency.thread and k[0].rpartition("#")[0] == application]:
            _THREADS.pop(key).close()  # an earlier start of the same application in this worker
        if residency.application is None:
            raise StreamsError(f"stream thread {residency.thread + 1} was started without its application")
        host = None if residency.executor is None else host_of(residency.executor)
        thread = _THREADS[residency.key, residency.thread] = StreamThread(unpacked(residency.application), residency.thread, host)
    return thread


def _drop(residency: Residency) -> None:
    """After a failure nothing is kept: the next residency starts from what is committed, with a producer of a new epoch."""
    thread = _THREADS.pop((residency.key, residency.thread), None)
    if thread is not None:
        thread.tasks.close_dirty()
        thread.close()


_PACKED = Codec()
_APPLICATIONS: dict[int, Application] = {}


def unpacked(application: bytes) -> Application:
    """The application, unpickled once per worker; its functions may come from modules that only the driver's path has.

    It is the user's code, which the driver sends with the function that Spark runs: who could forge it could forge that.
    """
    key = hash(application)
    if key not in _APPLICATIONS:
        _APPLICATIONS.clear()
        import_path, code = _PACKED.decode(application)
        for entry in import_path:
            if entry not in sys.path and os.path.isdir(entry):
                sys.path.append(entry)
        _APPLICATIONS[key] = cloudpickle.loads(code)
    return _APPLICATIONS[key]


def packed(application: Application) -> bytes:
    """The application as stream threads take it."""
    return _PACKED.encode((tuple(application.import_path), cloudpickle.dumps(application)))


def _explained(error: BaseException, thread: int) -> BaseException:
    """The error, or that the worker has used up its memory: then anything fails, an import or a name that is looked up too."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or not (isinstance(error, MemoryError) or limit - _address_space() < _NEXT_TO_NOTHING):
        return error
    explained = StreamsError(
        f"the Python worker of stream thread {thread + 1} has used up its memory, which is limited to {limit >> 20} MB by "
        f"spark.executor.pyspark.memory: {type(error).__name__}: {error}. Unset it, or set it to 4g for each core of an executor"
    )
    explained.__cause__ = error
    return explained


def _address_space() -> int:
    """How many bytes of address space this process has."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _refuse_second_attempts() -> None:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise TaskMigratedError("a second attempt of a Spark task does no work: the driver decides on retries")
