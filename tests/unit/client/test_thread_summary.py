"""The line of the log that sums up what threads have done."""

import logging

import pytest

from penstock.client.thread_summary import ThreadSummary
from penstock.spark.messages import BatchReport


def test_should_tell_what_each_thread_did_since_the_last_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    now = [0.0]
    summary = ThreadSummary(1000, {0: "app-StreamThread-1", 1: "app-StreamThread-2"}.get, lambda: now[0])
    for _ in range(2):
        summary.batch_done(0, BatchReport(0.0, 0.1, {}, processed=5, punctuated=1, tasks=2))
    now[0] = 0.5
    summary.tell({0: 0, 1: 1})
    assert caplog.messages == []
    now[0] = 1.25
    summary.tell({0: 0, 1: 1})
    assert caplog.messages == [
        "stream-thread [app-StreamThread-1] Processed 10 total records, ran 2 punctuators, polled 2 times and committed 4 "
        "total tasks since the last update 1250ms ago",
        "stream-thread [app-StreamThread-2] Processed 0 total records, ran 0 punctuators, polled 0 times and committed 0 "
        "total tasks since the last update 1250ms ago",
    ]


def test_should_never_tell_where_that_is_not_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    now = [0.0]
    summary = ThreadSummary(-1, lambda _: "thread", lambda: now[0])
    now[0] = 1e6
    summary.tell({0: 0})
    assert caplog.messages == []
