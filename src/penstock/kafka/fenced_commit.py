"""Offsets that only one generation of a group may commit.

The client commits as the member it is when the request is sent. That may be another generation than the one the offsets are of:
while they waited for their turn the group may have joined anew, and another may have gone on from what was committed before.
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
    """Commit as a member of this generation, on the client's loop; IllegalGenerationError where it is another's by now.

    What fails in passing is tried again. With `once` only what was refused is: a request that was sent and not answered may still
    be taken, after all that was done since.
    """
    until = time.monotonic() + seconds
    while True:
        await coordinator.ensure_coordinator_ready_async(timeout_ms=milliseconds_left(until))
        if coordinator._generation.generation_id != generation:
            raise IllegalGenerationError(f"they are of generation {generation}")
        try:
            await coordinator._send_offset_commit_request(offsets)  # takes the generation before it waits for anything
            return
        except KafkaError as exc:
            if not exc.retriable or (once and not isinstance(exc, REFUSED_FOR_NOW)):
                raise
        await coordinator._net.sleep(min(coordinator.config["retry_backoff_ms"], milliseconds_left(until)) / 1000)
        if not milliseconds_left(until):
            raise KafkaTimeoutError(f"offsets could not be committed within {seconds:.0f} s")


def milliseconds_left(until: float) -> int:
    """Up to a moment of the monotonic clock."""
    return max(0, round((until - time.monotonic()) * 1000))
