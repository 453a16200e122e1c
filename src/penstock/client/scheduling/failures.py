"""Failures of stream threads: their classification, and their conversion to exceptions."""

from __future__ import annotations

from penstock import errors
from penstock.errors import (
    BrokerAccessError,
    BrokerError,
    LockError,
    PenstockError,
    StreamsError,
    TaskCorruptedError,
    TaskMigratedError,
)
from penstock.spark.driver.placement import NoExecutorsError, SessionStoppedError
from penstock.spark.messages import Failure


class ThreadLostError(StreamsError):
    """The worker or the executor of a stream thread has died."""


_TRANSIENT = (BrokerError, LockError, TaskMigratedError, TaskCorruptedError, ThreadLostError, NoExecutorsError)


def is_transient(error: BaseException) -> bool:
    """Return True if a restart from the last commit cures the error: brokers unavailable, a dead worker, tasks taken over."""
    return isinstance(error, _TRANSIENT) and not isinstance(error, BrokerAccessError)


def error_of(failure: Failure) -> BaseException:
    """Return a thread's exception. The user's exception is its cause, and the last cause has the thread's traceback."""
    if failure.kind == "ThreadLost":
        return ThreadLostError(f"The worker of a stream thread died: {failure.message}")
    if failure.kind == "SessionStopped":
        return SessionStoppedError()
    told, known = failure.error, _error_class(failure.kind)
    error = None if told is None else told.exception(Exception)
    if error is None:
        error = told.as_text() if told is not None and known is StreamsError else known(failure.message)
        error.__cause__ = None if told is None else told.made_cause()
    last = error
    while last.__cause__ is not None:
        last = last.__cause__
    last.__cause__ = StreamsError(failure.traceback)
    return error


def _error_class(kind: str) -> type[PenstockError]:
    found = vars(errors).get(kind)
    return found if isinstance(found, type) and issubclass(found, PenstockError) else StreamsError
