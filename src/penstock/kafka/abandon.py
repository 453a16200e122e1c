"""Calls of librdkafka that may never come back.

`send_offsets_to_transaction` does not keep its timeout: it waits for the group's coordinator with a deadline that nothing
looks at (librdkafka's issue 5456). After brokers were away it was seen to wait for ever, with the brokers up again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class AbandonedError(Exception):
    """A call did not return in its time; it goes on by itself, and what it uses must not be touched any more."""


def call_within(seconds: float, function: Callable[..., Any], *arguments: Any, late: Callable[[], Any] = lambda: None) -> None:
    """Call a function on a thread of its own and wait for it; `late` is called there if it returns after all, but too late.

    >>> call_within(5.0, print, "in time")
    in time
    >>> call_within(0.01, threading.Event().wait)
    Traceback (most recent call last):
    ...
    penstock.kafka.abandon.AbandonedError: no answer within 0.01 s
    """
    state = threading.Condition()
    outcome: list[BaseException | None] = []
    abandoned = False

    def run() -> None:
        error: BaseException | None = None
        try:
            function(*arguments)
        except BaseException as exc:  # noqa: BLE001 - raised where the call was made
            error = exc
        with state:
            outcome.append(error)
            state.notify_all()
            too_late = abandoned
        if too_late:
            late()

    threading.Thread(target=run, name="abandonable-call", daemon=True).start()
    with state:
        if not state.wait_for(lambda: outcome, seconds):
            abandoned = True
            raise AbandonedError(f"no answer within {seconds:g} s")
    if outcome[0] is not None:
        raise outcome[0]
