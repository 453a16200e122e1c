"""What a thread is busy with is found while it is: a real turn on this thread, the looks on another."""

from __future__ import annotations

import os

from penstock.spark.messages import ThreadReport
from penstock.spark.reports import read_report, write_report
from penstock.spark.worker.busy_nodes import BusyNodes
from penstock.spark.worker.current_work import CurrentWork
from penstock.usage import own_usage, usage_of
from tests.harness.kafka import wait_until


def test_should_find_what_a_turn_does_and_sleep_between_turns() -> None:
    work = CurrentWork()
    busy = BusyNodes(work, "thread")
    try:
        with work.turn("process"):
            wait_until(lambda: sum(busy._found.values()) >= 100, "it was looked at twice")
        found = busy.take()
        assert set(found) == {"(process)"}
        assert found["(process)"] >= 100
        busy.take()
        assert not busy.take()
    finally:
        busy.close()


def test_should_end_with_its_thread() -> None:
    work = CurrentWork()
    busy = BusyNodes(work, "thread")
    busy.close()
    wait_until(lambda: not busy.is_alive, "the thread has ended")


def test_should_tell_what_a_worker_takes_in_its_report() -> None:
    used = own_usage()
    report = ThreadReport("worker", usage=(used.seconds, used.memory))
    assert read_report(write_report(report)).usage == (used.seconds, used.memory)
    assert used.memory > 1_000_000


def test_should_tell_what_other_processes_take() -> None:
    found = usage_of(os.getpid())
    assert found is not None
    assert found.memory > 1_000_000
    assert found.seconds >= 0
    assert usage_of(2**22 + 1) is None
