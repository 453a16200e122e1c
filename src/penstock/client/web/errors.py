"""HTTP errors: a status and a reason."""

from __future__ import annotations

from typing import Any

from penstock.errors import (
    InvalidStateStoreError,
    PenstockError,
    StateStoreMigratedError,
    StateStoreNotAvailableError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    StreamsStoppedError,
    UnknownStateStoreError,
)

_NOT_NOW = (
    StateStoreNotAvailableError,
    StateStoreMigratedError,
    StreamsRebalancingError,
    StreamsNotStartedError,
    StreamsStoppedError,
)


class HttpError(Exception):
    """A status and a reason. For another instance's key request also the partitions without the key."""

    def __init__(self, status: int, reason: str, partitions: Any = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.partitions = partitions


def http_error(error: Exception) -> HttpError:
    """Convert an exception to an HTTP error."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, UnknownStateStoreError):
        return HttpError(404, str(error))
    if isinstance(error, _NOT_NOW):
        return HttpError(503, str(error))
    if isinstance(error, InvalidStateStoreError | ValueError | TypeError):
        return HttpError(400, str(error))
    if isinstance(error, PenstockError):
        return HttpError(503, str(error))
    return HttpError(500, f"{type(error).__name__}: {error}")
