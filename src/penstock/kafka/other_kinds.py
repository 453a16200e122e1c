"""Handles groups with members of another application: Kafka Streams (Java), a plain consumer, or penstock without a proof.

A broker admits only members with a common assignor, so this member is refused and the group is unharmed. But members can remain
listed after they ended: Kafka Streams (Java) does not leave when it closes, and a killed process cannot. The brokers remove
them when the session ends (45 s by default). This member therefore waits for longer than that; members listed after that are
alive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import BrokerError
from penstock.kafka.groups import STREAMS_PROTOCOL, GroupStatus
from penstock.printable import printable

_log = logging.getLogger(__name__)

JAVA_PROTOCOL = "stream"
_OWN_PREFIX = "penstock"

_SESSION_SECONDS = 45.0  # Java's default of session.timeout.ms
_MORE_SECONDS = 15.0
_LOG_EVERY = 60.0
_MOST_NAMED = 5


class OtherKinds:
    """Measures how long members of another application have kept this member out, and decides when to give up.

    `look` describes the group. It may fail.
    """

    def __init__(self, client_config: Mapping[str, Any], look: Callable[[], GroupStatus] | None) -> None:
        self._group = client_config.get("group_id")
        self._patience = max(_SESSION_SECONDS, client_config.get("session_timeout_ms", 0) / 1000) + _MORE_SECONDS
        self._look = look
        self._since: float | None = None
        self._told_at = 0.0

    def are_gone(self) -> None:
        self._since = None

    def refusal(self) -> BrokerError | None:
        """Return the error to give up with, or None to try again. Called each time the broker refuses this member."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._told_at = now, now - _LOG_EVERY
        is_over, is_told = now - self._since > self._patience, now < self._told_at + _LOG_EVERY
        if is_told and not is_over:
            return None
        status = self._status()
        if status is not None and status.protocol.startswith(_OWN_PREFIX):
            self._since = self._told_at = now
            _log.warning(
                "The group %s has members with another protocol version. This instance joins when they have left: %s",
                *(self._group, kind_of(status)),
            )
        elif is_over:
            return BrokerError(
                f"The group {self._group} has members of another kind: {kind_of(status)}. An application.id belongs to either "
                "penstock or another application at a time. Nothing of the other was changed. Stop it, and start this one "
                "when its members have left the group, or choose another application.id"
            )
        else:
            self._told_at = now
            _log.warning(
                "The group %s still has members of another kind: %s. This instance joins when they are gone. For a Java "
                "application that was closed or killed, that is when its session.timeout.ms has passed (45 s by default). "
                "It gives up after %.0f s",
                *(self._group, kind_of(status), self._patience),
            )
        return None

    def _status(self) -> GroupStatus | None:
        if self._look is None:
            return None
        try:
            return self._look()
        except BrokerError as exc:
            _log.debug("Describing group %s failed: %s", self._group, exc)
            return None


def kind_of(status: GroupStatus | None) -> str:
    """Describe the kind and the names of a group's members.

    >>> kind_of(GroupStatus("Stable", (), "stream"))
    'Kafka Streams in Java (assignor stream), 0 members'
    """
    if status is None or not status.exists:
        return "the brokers do not describe them (group.protocol consumer or streams, or no right to describe the group)"
    known = {JAVA_PROTOCOL: "Kafka Streams in Java", STREAMS_PROTOCOL: "a streams group"}.get(status.protocol)
    if known is None:
        known = "penstock" if status.protocol.startswith(_OWN_PREFIX) else "consumers"
    kind = f"{known} (assignor {printable(status.protocol)})" if status.protocol else "members in a rebalance"
    named = ", ".join(f"{member.client_id} on {member.host}" for member in status.members[:_MOST_NAMED])
    more = len(status.members) - _MOST_NAMED
    counted = "1 member" if len(status.members) == 1 else f"{len(status.members)} members"
    return f"{kind}, {counted}{': ' if named else ''}{named}{f' and {more} more' if more > 0 else ''}"
