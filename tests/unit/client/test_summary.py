import logging

import pytest

from penstock.client.summary import Summary
from penstock.client.turns import Turn
from penstock.ids import TaskId
from penstock.spark.messages import LaneAnswer, TaskWork


def turn() -> Turn:
    return Turn(work={0: {TaskId(0, 0): TaskWork()}, 1: {TaskId(0, 1): TaskWork()}})


def answers(records: int) -> dict[int, LaneAnswer]:
    return {0: LaneAnswer("w", records=records, produced=2), 1: LaneAnswer("w", records=1)}


def test_should_tell_what_was_done_once_in_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    summary = Summary(10_000, lambda: now[0])
    summary.account(turn(), answers(4))
    assert caplog.messages == []
    now[0] = 10.0
    summary.account(turn(), answers(5))
    assert caplog.messages == ["processed 11 records in 2 turns, wrote 4 records and committed 4 tasks in the last 10 s"]
    now[0] = 25.0
    summary.tell()
    assert len(caplog.messages) == 1  # nothing was done
    summary.account(turn(), answers(0))
    now[0] = 40.0
    summary.tell()
    assert caplog.messages[1].startswith("processed 1 records in 1 turns")


def test_should_keep_quiet_where_it_is_told_to(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    summary = Summary(-1, lambda: 1e9)
    summary.account(turn(), answers(4))
    assert caplog.messages == []
