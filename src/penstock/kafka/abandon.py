"""Calls of Kafka's clients that may never come back.

Most take a limit and keep it. Some take none: a producer that is closed waits for records that no broker takes. And librdkafka's
`send_offsets_to_transaction` does not keep its own: it waits for the group's coordinator with a deadline that nothing looks at
(librdkafka's issue 5456). After brokers were away it was seen to wait for ever, with the brokers up again.
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
    """A call did not return in its time; it goes on by itself, and what it uses must not be touched any more."""


def close_within(what: str, close: Callable[[], Any], seconds: float = _CLOSE_SECONDS) -> None:
    """Close a client; one that does not close in time is left to itself: who closes it does not need it any more."""
    try:
        call_within(seconds, close)
    except AbandonedError as exc:
        _log.warning("%s has not closed and is left to itself: %s", what, exc)


def call_within(seconds: float, function: Callable[..., T], *arguments: Any, late: Callable[[], Any] = lambda: None) -> T:
    """What a function returns that is called on a thread of its own; `late` is called there if that comes, but too late.

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
        except BaseException as exc:  # noqa: BLE001 - raised where the call was made
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
