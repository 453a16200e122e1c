"""When an instance asks a group for work: at once where nobody has it, else when it can do it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.clock import monotonic

_log = logging.getLogger(__name__)

_LOOK_EVERY = 0.05


def wait_to_join(
    others_work: Callable[[], bool], can_work: Callable[[], bool], ended: threading.Event, longest_seconds: float
) -> None:
    """Return when it is time to join. Those who have the work keep it until there are threads here that can take it.

    Whatever goes wrong with the question, the instance joins: one that does not is a member of nothing, and nobody would know.
    """
    try:
        waits = others_work()
    except Exception as exc:  # noqa: BLE001 - joining says what is wrong with the brokers or the rights, if it still is
        _log.debug("who is in the group cannot be told: %s", exc)
        waits = False
    deadline = monotonic() + longest_seconds
    while waits and not can_work() and monotonic() < deadline and not ended.wait(_LOOK_EVERY):
        pass
