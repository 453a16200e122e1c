"""Failures of lanes: which pass by themselves, and how they become exceptions again."""

from __future__ import annotations

import pickle

from penstock import errors
from penstock.errors import BrokerAccessError, BrokerError, LockError, StreamsError, TaskCorruptedError, TaskMigratedError
from penstock.spark.messages import Failure
from penstock.spark.placement import NoExecutorsError


class LaneLostError(StreamsError):
    """The worker or the executor of a lane died."""


_TRANSIENT = (BrokerError, LockError, TaskMigratedError, TaskCorruptedError, LaneLostError, NoExecutorsError)


def is_transient(error: BaseException) -> bool:
    """Whether starting again from the last commit is the cure: brokers away, a worker dead, work taken over."""
    return isinstance(error, _TRANSIENT) and not isinstance(error, BrokerAccessError)


def error_of(failure: Failure) -> BaseException:
    """The exception a lane met, with its traceback in the text; the user's own stays visible as its cause."""
    if failure.kind == "LaneLost":
        return LaneLostError(f"the worker of a lane is gone: {failure.message}")
    error: BaseException | None = None
    if failure.error is not None:
        try:
            error, cause = pickle.loads(failure.error)  # noqa: S301 - of a lane of this session: one domain of trust
            if error is not None:
                error.__cause__ = cause
        except Exception:  # noqa: BLE001 - a class that cannot be imported here is told as text
            error = None
    if error is None:
        error = getattr(errors, failure.kind, StreamsError)(failure.message)
    error.__cause__ = error.__cause__ or StreamsError(failure.traceback)
    return error
