"""Run client calls that may never return.

Most client calls honour a time limit. Closing a producer takes no limit: it waits until brokers acknowledge its records.
librdkafka's `send_offsets_to_transaction` ignores its limit while it waits for the group coordinator (librdkafka issue 5456).
After a broker outage the call was seen to block for ever, although the brokers were up again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0

T = TypeVar("T")


class AbandonedError(Exception):
    """A call did not return in time. It still runs on its thread, so the caller must not touch the objects that the call uses."""


def close_within(what: str, close: Callable[[], Any], seconds: float = _CLOSE_SECONDS) -> None:
    """Close a client. Log a warning and return if it does not close in time."""
    try:
        call_within(seconds, close)
    except AbandonedError as exc:
        _log.warning("%s was not closed: %s. It closes in the background", what, exc)


def call_within(seconds: float, function: Callable[..., T], *arguments: Any, late: Callable[[], Any] = lambda: None) -> T:
    """Call a function on a separate thread and return its result. Raise `AbandonedError` after `seconds`.

    If the function returns after that, `late` is called on its thread.

    >>> call_within(5.0, print, "in time")
    in time
    >>> call_within(0.01, threading.Event().wait)
    Traceback (most recent call last):
    ...
    penstock.kafka.abandon.AbandonedError: no answer within 0.01 s
    """
    state = threading.Condition()
    returned: list[T] = []
    raised: list[BaseException] = []
    abandoned = False

    def run() -> None:
        try:
            found, error = [function(*arguments)], []
        except BaseException as exc:  # noqa: BLE001 - raised again in the calling thread
            found, error = [], [exc]
        with state:
            returned.extend(found)
            raised.extend(error)
            state.notify_all()
            too_late = abandoned
        if too_late:
            late()

    threading.Thread(target=run, name="abandonable-call", daemon=True).start()
    with state:
        if not state.wait_for(lambda: returned or raised, seconds):
            abandoned = True
            raise AbandonedError(f"no answer within {seconds:g} s")
    if raised:
        raise raised[0]
    return returned[0]
