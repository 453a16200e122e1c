from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.spark.worker.idle_clients import IdleClients
from tests.harness.kafka import wait_until


class Served:
    """Counts how often it was served, and fails the first time."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        if self.times == 1:
            raise RuntimeError("the broker is away")


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def idle(served: Served) -> Iterator[IdleClients]:
    clients = IdleClients(served, "thread", every=0.001)
    yield clients
    clients.close()


def test_should_serve_clients_again_and_again_though_it_fails_once(idle: IdleClients, served: Served) -> None:
    wait_until(lambda: served.times > 3, "they are served")


def test_should_leave_clients_alone_that_are_in_use(served: Served) -> None:
    clients = IdleClients(served, "thread", every=3600)
    with clients.in_use:
        clients.ask()
        assert served.times == 0
    clients.ask()
    assert served.times == 1
    clients.close()
    clients.ask()
    assert served.times == 1


def test_should_end_when_closed(idle: IdleClients) -> None:
    idle.close()
    wait_until(lambda: not idle.is_alive, "its thread has ended")
