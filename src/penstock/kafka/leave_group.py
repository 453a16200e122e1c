"""Leave the group under old member ids.

A member that loses its connection joins again under a new id. Without a leave request the group waits for the old id until its
session ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka.errors import CoordinatorLoadInProgressError, KafkaTimeoutError, for_code
from kafka.protocol.consumer.group import LeaveGroupRequest

from penstock.kafka.fenced_commit import REFUSED_FOR_NOW, milliseconds_left


async def leave_group(coordinator: Any, members: Iterable[str], seconds: float) -> None:
    """Remove these members from the group, on the client's loop. Unknown members are ignored.

    Gives up after `seconds` or if the brokers do not answer: the member joins anyway. Raises KafkaError if the connection is
    lost.
    """
    until = time.monotonic() + seconds
    leaving = [LeaveGroupRequest.MemberIdentity(member_id=member, reason="its connection was lost") for member in members]
    if not leaving:
        return
    # The first member is named twice: old brokers read the single field only.
    request = LeaveGroupRequest(group_id=coordinator.group_id, member_id=leaving[0].member_id, members=leaving)
    while milliseconds_left(until) and await coordinator.ensure_coordinator_ready_async(timeout_ms=milliseconds_left(until)):
        sent = coordinator._manager.send(request, node_id=coordinator.coordinator_id)
        try:
            error = for_code((await coordinator._manager.wait_for(sent, milliseconds_left(until))).error_code)
        except KafkaTimeoutError:
            return
        if not issubclass(error, REFUSED_FOR_NOW):
            return
        if not issubclass(error, CoordinatorLoadInProgressError):
            coordinator.coordinator_dead(error())
        await coordinator._net.sleep(coordinator.config["retry_backoff_ms"] / 1000)
