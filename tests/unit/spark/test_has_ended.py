"""How the end of a SparkContext shows, whoever has ended it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.spark import internals
from penstock.spark.internals import (
    active_context,
    forget_ended,
    forget_lost_jvm,
    has_ended,
    is_cut_off,
    jvm_is_gone,
    running_gateway,
    was_stopped,
)
from tests.harness.waiting import LIMIT


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a process that is not there."""
    monkeypatch.setattr(internals, "_ENDING_SECONDS", 0.0)


def context_that(answers: bool | Exception) -> Any:
    """A context whose JVM answers, or does not."""

    def is_stopped() -> bool:
        if isinstance(answers, Exception):
            raise answers
        return answers

    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped)))


@pytest.mark.parametrize("answers", [True, Py4JError("ended"), Py4JNetworkError("empty"), ConnectionRefusedError(111, "refused")])
def test_should_take_a_jvm_that_does_not_answer_for_ended(answers: bool | Exception) -> None:
    assert has_ended(context_that(answers))


def test_should_tell_a_context_that_runs_from_one_that_was_stopped_here() -> None:
    assert not has_ended(context_that(False))
    assert has_ended(SimpleNamespace(_jsc=None))  # type: ignore[arg-type]
    assert has_ended(None)


class Process:
    """A process that ends when it is told to; nothing can be waited for."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.stdin = SimpleNamespace(close=lambda: None)

    def poll(self) -> int | None:
        return self.code


class Gateway:
    """A connection to a JVM, which is a process of ours or listens on a port."""

    def __init__(self, process: Process | None, port: int = 0) -> None:
        self.proc = process
        self.gateway_parameters = SimpleNamespace(address="127.0.0.1", port=port)
        self._gateway_client = SimpleNamespace(is_connected=True)
        self.shutdowns = 0

    def shutdown(self) -> None:
        self.shutdowns += 1


def test_should_see_the_end_of_a_jvm_of_ours_without_asking_it() -> None:
    process = Process()
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(), _gateway=Gateway(process))
    assert not is_cut_off(context)
    process.code = -9
    assert is_cut_off(context)
    assert has_ended(context)


def test_should_see_the_end_of_a_jvm_that_others_have_started_by_a_connection_to_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gateway = Gateway(None, listening.getsockname()[1])
        assert not jvm_is_gone(gateway)
        accepted, _ = listening.accept()
        assert not jvm_is_gone(gateway)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()  # one connection is enough
        accepted.close()
        wait_for(lambda: not jvm_is_gone(gateway) and has_pending(listening))  # closed by a JVM that lives: it is asked anew
    wait_for(lambda: jvm_is_gone(gateway))
    assert jvm_is_gone(gateway)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_pending(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """A JVM that has died under pyspark's context and session."""
    gateway = Gateway(Process())
    assert gateway.proc is not None
    gateway.proc.code = -9
    for name, value in (("_gateway", gateway), ("_jvm", "its names"), ("_active_spark_context", context_that(False))):
        monkeypatch.setattr(SparkContext, name, value)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", "the session")
    monkeypatch.setattr(SparkSession, "_activeSession", "the session")
    return gateway


def test_should_forget_all_that_hangs_on_a_jvm_that_is_gone(lost: Gateway) -> None:
    context: Any = active_context()
    ended: list[str] = []
    context._accumulatorServer = SimpleNamespace(shutdown=lambda: ended.append("accumulators"))
    assert forget_lost_jvm()
    assert not forget_lost_jvm()
    assert (running_gateway(), active_context()) == (None, None)
    assert SparkSession._instantiatedSession is SparkSession._activeSession is None
    assert (ended, lost.shutdowns, lost._gateway_client.is_connected) == (["accumulators"], 1, False)
    # Who still holds the old context stays with its JVM, also when there is another.
    assert has_ended(context)
    assert (context._gateway, context._jvm) == (lost, "its names")


def test_should_forget_no_jvm_that_lives(lost: Gateway) -> None:
    assert lost.proc is not None
    lost.proc.code = None
    assert not forget_lost_jvm()
    assert running_gateway() is lost
    assert active_context() is not None


def test_should_tell_a_context_that_was_stopped_from_one_that_was_lost(lost: Gateway) -> None:
    context: Any = active_context()
    assert not was_stopped(context)
    forget_lost_jvm()
    assert not was_stopped(context)
    assert was_stopped(SimpleNamespace(_jsc=None))  # type: ignore[arg-type]
    ended: Any = SimpleNamespace(_jsc=SimpleNamespace(), stop=lambda: setattr(ended, "_jsc", None))
    forget_ended(ended)
    assert not was_stopped(ended)
