"""A member that was cut off from its brokers comes back as another one, and takes its leave for the one it was.

The group would wait for the old one otherwise, until its session ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka.errors import CoordinatorLoadInProgressError, KafkaTimeoutError, for_code
from kafka.protocol.consumer.group import LeaveGroupRequest

from penstock.kafka.fenced_commit import REFUSED_FOR_NOW, milliseconds_left


async def leave_for(coordinator: Any, members: Iterable[str], seconds: float) -> None:
    """Have these members of the group leave it, on the client's loop; whoever is no member any more is fine.

    Brokers that cannot do so for so long, or do not answer, are left alone with it: nobody stays out of a group for it.
    KafkaError where a connection is lost.
    """
    until = time.monotonic() + seconds
    leaving = [LeaveGroupRequest.MemberIdentity(member_id=member, reason="its connection was lost") for member in members]
    if not leaving:
        return
    # The first is named twice: old brokers know only one.
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
