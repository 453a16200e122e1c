"""When an instance joins the group: at once if nobody has the tasks, else when its threads are ready."""

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
    """Wait until it is time to join. Other members keep the tasks until threads here can take them.

    If the check fails, the instance joins anyway.
    """
    try:
        waits = others_work()
    except Exception as exc:  # noqa: BLE001 - joining reports a lasting error
        _log.debug("Describing the group failed: %s", exc)
        waits = False
    deadline = monotonic() + longest_seconds
    while waits and not can_work() and monotonic() < deadline and not ended.wait(_LOOK_EVERY):
        pass
