"""Commit offsets for one generation of a group.

kafka-python commits under the generation at the time of the request. The offsets may belong to an older generation: while the
commit waited, the group may have rebalanced, and another member may have continued from the previous offsets.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
)
from kafka.structs import OffsetAndMetadata as ClientOffset
from kafka.structs import TopicPartition as ClientPartition

REFUSED_FOR_NOW = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)


async def commit_under(
    coordinator: Any, generation: int, offsets: Mapping[ClientPartition, ClientOffset], seconds: float, *, once: bool
) -> None:
    """Commit under this generation, on the client's loop. Raises IllegalGenerationError if the generation has changed.

    Passing errors are retried. With `once` only refusals are retried: a request without an answer may still take effect later,
    and would undo newer commits.
    """
    until = time.monotonic() + seconds
    while True:
        await coordinator.ensure_coordinator_ready_async(timeout_ms=milliseconds_left(until))
        if coordinator._generation.generation_id != generation:
            raise IllegalGenerationError(f"the offsets are of generation {generation}")
        try:
            await coordinator._send_offset_commit_request(offsets)  # reads the generation before it waits
            return
        except KafkaError as exc:
            if not exc.retriable or (once and not isinstance(exc, REFUSED_FOR_NOW)):
                raise
        await coordinator._net.sleep(min(coordinator.config["retry_backoff_ms"], milliseconds_left(until)) / 1000)
        if not milliseconds_left(until):
            raise KafkaTimeoutError(f"Committing offsets timed out after {seconds:.0f} s")


def milliseconds_left(until: float) -> int:
    """Return the milliseconds until a time of the monotonic clock."""
    return max(0, round((until - time.monotonic()) * 1000))
