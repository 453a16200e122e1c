"""How large turns are."""

from __future__ import annotations

import pytest

from penstock.client.pace import Pace


def run(pace: Pace, turns: int, backlog: int, cost: float, fixed: float = 0.05) -> int:
    """So many turns over a backlog; returns how large the next one would be."""
    for _ in range(turns):
        records = min(backlog, pace.max_records(500_000, backlog))
        pace.account(records, fixed + records * cost)
    return pace.max_records(500_000, backlog)


@pytest.mark.parametrize("cost", [0.001, 0.005, 0.05, 0.5])
def test_should_keep_turns_short_where_a_record_takes_milliseconds(cost: float) -> None:
    pace = Pace()
    run(pace, 20, 3, cost)  # what small turns tell is not much
    next_turn = run(pace, 10, 100_000, cost)
    assert next_turn * cost < 5 or next_turn == 10


def test_should_take_no_more_than_a_few_seconds_of_records_that_it_knows_little_of() -> None:
    pace = Pace()
    pace.account(1, 0.05)
    assert pace.max_records(500_000, backlog=50_000) * 0.005 <= 5


def test_should_get_over_one_turn_that_was_slow_for_another_reason() -> None:
    pace = Pace()
    assert run(pace, 20, 500, 10e-6) > 500
    pace.account(20, 3.0)
    assert pace.max_records(500_000, backlog=500) < 500
    assert run(pace, 10, 5_000, 10e-6) >= 5_000


def test_should_not_lose_its_head_over_turns_that_all_take_the_same() -> None:
    pace = Pace()
    for _ in range(5_000):
        pace.account(3_000, 0.2)
    assert pace.max_records(500_000, backlog=1_000_000) > 3_000
