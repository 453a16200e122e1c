"""kafka-python's log, kept down: what a broker that restarts makes it say is chatter for an operator of the application.

Each lost connection, failed metadata refresh and missed heartbeat is an error in its log, tens of them a second. So are offsets
that are asked for while the transaction that changes them is decided. Membership tells itself when it is interrupted and when it
ends. The chatter is still there for whoever asks for DEBUG; what needs a person (authorization, authentication) stays as it is.
"""

from __future__ import annotations

import logging

_LOUD = (
    "kafka.cluster",
    "kafka.coordinator",
    "kafka.coordinator.consumer",
    "kafka.coordinator.heartbeat",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.transport",
)
_SERIOUS = ("authoriz", "authentic", "sasl", "fenced", "inconsistent", "fatal", "certificate", "ssl")
_TOLD = "inconsistentgroupprotocol"  # once a second while members of another kind are waited for; membership tells who they are


class _Demote(logging.Filter):
    """Makes DEBUG of warnings and errors that pass by themselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno not in (logging.WARNING, logging.ERROR):
            return True
        text = record.getMessage().lower()
        if any(sign in text for sign in _SERIOUS) and _TOLD not in text:
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_demote = _Demote()


def keep_down() -> None:
    """Demote kafka-python's chatter; done once, however often it is asked for."""
    for name in _LOUD:
        logging.getLogger(name).addFilter(_demote)
