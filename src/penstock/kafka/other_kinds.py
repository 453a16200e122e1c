"""A group that has members of another kind: Kafka Streams in Java, a plain consumer, a release of penstock that proves nothing.

A broker lets only members into a group that have one way of dealing out work in common. So who is of another kind is refused, and
nobody in the group is harmed. But members stay in a group when they have gone: Kafka Streams in Java does not leave when it is
closed, and whoever was killed cannot; the brokers notice when the session has ended, after 45 s unless it was set. So they are
waited for, for longer than that; whoever is there then is alive.
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

_SESSION_SECONDS = 45.0  # what session.timeout.ms is in Java unless it was set
_MORE_SECONDS = 15.0
_TOLD_EVERY = 60.0
_MOST_NAMED = 5


class OtherKinds:
    """How long members of another kind have kept this one out of its group, and what to do about it.

    `look` tells who is in the group; it may fail.
    """

    def __init__(self, client_config: Mapping[str, Any], look: Callable[[], GroupStatus] | None) -> None:
        self._group = client_config.get("group_id")
        self._patience = max(_SESSION_SECONDS, client_config.get("session_timeout_ms", 0) / 1000) + _MORE_SECONDS
        self._look = look
        self._since: float | None = None
        self._told_at = 0.0

    def are_gone(self) -> None:
        """This member has joined."""
        self._since = None

    def refusal(self) -> BrokerError | None:
        """Called when this member was kept out: why it should give up, or None where it should try again in a moment."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._told_at = now, now - _TOLD_EVERY
        is_over, is_told = now - self._since > self._patience, now < self._told_at + _TOLD_EVERY
        if is_told and not is_over:
            return None
        status = self._status()
        if status is not None and status.protocol.startswith(_OWN_PREFIX):
            self._since = self._told_at = now
            _log.warning(
                "the group %s has members that speak another protocol than this release. This instance joins when they are gone: "
                "%s",
                *(self._group, kind_of(status)),
            )
        elif is_over:
            return BrokerError(
                f"the group {self._group} has members of another kind: {kind_of(status)}. An application.id belongs either to "
                "penstock or to another application at a time, and nothing of the other was touched: stop it, and start this one "
                "when its members have left the group; or choose another application.id"
            )
        else:
            self._told_at = now
            _log.warning(
                "the group %s still has members of another kind: %s. This instance joins when they are gone, which for an "
                "application in Java that was closed or killed is when its session.timeout.ms has passed (45 s unless it was "
                "set); it gives up after %.0f s",
                *(self._group, kind_of(status), self._patience),
            )
        return None

    def _status(self) -> GroupStatus | None:
        if self._look is None:
            return None
        try:
            return self._look()
        except BrokerError as exc:
            _log.debug("who is in group %s cannot be told: %s", self._group, exc)
            return None


def kind_of(status: GroupStatus | None) -> str:
    """Of which kind the members of a group are, and who they are.

    >>> kind_of(GroupStatus("Stable", (), "stream"))
    'Kafka Streams in Java (assignor stream), 0 members'
    """
    if status is None or not status.exists:
        return "the brokers do not tell who they are (group.protocol consumer or streams, or no right to describe the group)"
    if status.protocol == STREAMS_PROTOCOL:
        known: str | None = "members of a streams group (group.protocol = streams)"
    else:
        known = {JAVA_PROTOCOL: "Kafka Streams in Java"}.get(status.protocol)
    if known is None:
        known = "penstock" if status.protocol.startswith(_OWN_PREFIX) else "consumers"
    kind = f"{known} (assignor {printable(status.protocol)})" if status.protocol else "members that deal out the work just now"
    named = ", ".join(f"{member.client_id} on {member.host}" for member in status.members[:_MOST_NAMED])
    more = len(status.members) - _MOST_NAMED
    counted = "1 member" if len(status.members) == 1 else f"{len(status.members)} members"
    return f"{kind}, {counted}{': ' if named else ''}{named}{f' and {more} more' if more > 0 else ''}"
