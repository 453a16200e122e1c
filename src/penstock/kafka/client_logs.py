"""Demotes kafka-python's log messages about broker restarts to DEBUG.

kafka-python logs an error for each lost connection, failed metadata refresh and missed heartbeat, tens a second. It also logs
offset fetches during an undecided transaction. `kafka/membership.py` logs when membership is interrupted and when it ends.
Messages about authorization and authentication keep their level.
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
_TOLD = "inconsistentgroupprotocol"  # once a second while members of another application are waited for; membership logs them


class _Demote(logging.Filter):
    """Demotes warnings and errors about passing conditions to DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno not in (logging.WARNING, logging.ERROR):
            return True
        text = record.getMessage().lower()
        if any(sign in text for sign in _SERIOUS) and _TOLD not in text:
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_demote = _Demote()


def demote_client_logs() -> None:
    """Install the filters. Later calls do nothing."""
    for name in _LOUD:
        logging.getLogger(name).addFilter(_demote)
