"""An instance joins at once where nobody has the work, when it can do it where others have, and whatever goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.client.assignment.joining import wait_to_join
from penstock.errors import BrokerError
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT


def joining(others_work: Callable[[], bool], can_work: Callable[[], bool], ended: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=wait_to_join, args=(others_work, can_work, ended, 60.0), daemon=True)
    thread.start()
    return thread


def refuses(error: Exception) -> Callable[[], bool]:
    def others_work() -> bool:
        raise error

    return others_work


def test_should_join_at_once_where_nobody_has_the_work() -> None:
    wait_to_join(lambda: False, lambda: False, threading.Event(), 60.0)


def test_should_leave_others_their_work_until_it_can_do_it() -> None:
    ready: list[bool] = []
    asked = threading.Event()

    def can_work() -> bool:
        asked.set()
        return bool(ready)

    thread = joining(lambda: True, can_work, threading.Event())
    assert asked.wait(LIMIT)
    assert thread.is_alive()
    ready.append(True)
    wait_until(lambda: not thread.is_alive(), "it joins")


def test_should_not_wait_for_threads_after_its_end() -> None:
    ended = threading.Event()
    thread = joining(lambda: True, lambda: False, ended)
    ended.set()
    wait_until(lambda: not thread.is_alive(), "it does not wait any more")


@pytest.mark.parametrize("error", [BrokerError("nobody may describe the group"), KeyError("a member that tells nonsense")])
def test_should_join_also_where_nobody_tells_who_is_there(error: Exception) -> None:
    wait_to_join(refuses(error), lambda: False, threading.Event(), 60.0)
