"""A member that was cut off from its brokers comes back as another one, and takes its leave for the one it was.

The group would wait for the old one otherwise: until its session ends, and where brokers miss that for as long as a rebalance may
last, five minutes. Kafka 4.2 was seen to, when it had just been started again after a kill.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, KafkaError, NotCoordinatorError, for_code
from kafka.protocol.consumer.group import LeaveGroupRequest

_LATER = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)


async def leave_for(coordinator: Any, members: Iterable[str], seconds: float) -> None:
    """Have these members of the group leave it, on the client's loop; whoever is no member any more is fine.

    Brokers that cannot do so for so long are left alone with it. KafkaError where none answers.
    """
    until = time.monotonic() + seconds
    left = [LeaveGroupRequest.MemberIdentity(member_id=member, reason="its connection was lost") for member in members]
    while left and time.monotonic() < until:
        if not await coordinator.ensure_coordinator_ready_async(timeout_ms=max(1, round((until - time.monotonic()) * 1000))):
            return
        # The first is named twice: old brokers know only one.
        request = LeaveGroupRequest(group_id=coordinator.group_id, member_id=left[0].member_id, members=left)
        response = await coordinator._manager.send(request, node_id=coordinator.coordinator_id)
        error: type[KafkaError] = for_code(response.error_code)
        if not issubclass(error, _LATER):
            return
        if not issubclass(error, CoordinatorLoadInProgressError):
            coordinator.coordinator_dead(error())
        await coordinator._net.sleep(coordinator.config["retry_backoff_ms"] / 1000)
