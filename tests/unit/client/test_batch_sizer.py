"""How large turns are."""

from __future__ import annotations

import pytest

from penstock.client.scheduling.batch_sizer import BatchSizer


def run(batch_sizer: BatchSizer, turns: int, backlog: int, cost: float, fixed: float = 0.05) -> int:
    """So many turns over a backlog; returns how large the next one would be."""
    for _ in range(turns):
        records = min(backlog, batch_sizer.max_records(500_000, backlog))
        batch_sizer.account(records, fixed + records * cost)
    return batch_sizer.max_records(500_000, backlog)


@pytest.mark.parametrize("cost", [0.001, 0.005, 0.05, 0.5])
def test_should_keep_turns_short_where_a_record_takes_milliseconds(cost: float) -> None:
    batch_sizer = BatchSizer()
    run(batch_sizer, 20, 3, cost)  # what small turns tell is not much
    next_turn = run(batch_sizer, 10, 100_000, cost)
    assert next_turn * cost < 5 or next_turn == 10


def test_should_take_no_more_than_a_few_seconds_of_records_that_it_knows_little_of() -> None:
    batch_sizer = BatchSizer()
    batch_sizer.account(1, 0.05)
    assert batch_sizer.max_records(500_000, backlog=50_000) * 0.005 <= 5


def test_should_get_over_one_turn_that_was_slow_for_another_reason() -> None:
    batch_sizer = BatchSizer()
    assert run(batch_sizer, 20, 500, 10e-6) > 500
    batch_sizer.account(20, 3.0)
    assert batch_sizer.max_records(500_000, backlog=500) < 500
    assert run(batch_sizer, 10, 5_000, 10e-6) >= 5_000


def test_should_not_lose_its_head_over_turns_that_all_take_the_same() -> None:
    batch_sizer = BatchSizer()
    for _ in range(5_000):
        batch_sizer.account(3_000, 0.2)
    assert batch_sizer.max_records(500_000, backlog=1_000_000) > 3_000
