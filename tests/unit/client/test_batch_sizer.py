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


_LONG = 3.5
"""What a turn of a backlog may take, in seconds, beside what any turn takes."""


def lengths(batch_sizer: BatchSizer, cost: float, records: int, fixed: float = 0.1) -> list[float]:
    """How long the turns are in which a backlog is worked off, whose records cost so much."""
    took, left = [], records
    while left > 0:
        done = min(left, batch_sizer.max_records(500_000, left))
        took.append(fixed + done * cost)
        batch_sizer.account(done, took[-1])
        left -= done
    return took


@pytest.mark.parametrize("cost", [1e-6, 10e-6, 140e-6, 1e-3])
@pytest.mark.parametrize("fixed", [0.02, 0.1, 0.5])
def test_should_have_no_turn_longer_than_three_seconds_from_the_first_on(cost: float, fixed: float) -> None:
    assert max(lengths(BatchSizer(), cost, round(40 / cost), fixed)) < fixed + _LONG


@pytest.mark.parametrize("cost", [1e-6, 10e-6])
def test_should_be_at_full_size_soon_where_records_are_cheap(cost: float) -> None:
    """A first small turn, one that grows, and then as long as turns should be."""
    took = lengths(BatchSizer(), cost, 3_000_000)
    assert sum(seconds < 0.3 for seconds in took[:-1]) <= 3
    assert sum(took) < 3_000_000 * cost * 1.5 + 1.0


@pytest.mark.parametrize("factor", [3, 10, 100])
def test_should_need_one_turn_to_learn_that_records_cost_more(factor: float) -> None:
    batch_sizer = BatchSizer()
    lengths(batch_sizer, 10e-6, 3_000_000)
    took = lengths(batch_sizer, factor * 10e-6, 1_000_000)
    assert max(took[1:]) < _LONG


@pytest.mark.parametrize("factor", [3, 10, 100])
def test_should_make_use_of_it_when_records_cost_less(factor: float) -> None:
    batch_sizer = BatchSizer()
    lengths(batch_sizer, 1e-3, 20_000)
    cheap = 1e-3 / factor
    took = lengths(batch_sizer, cheap, round(20 / cheap))
    assert max(took) < _LONG
    assert len(took) < 16


def test_should_stay_within_its_time_after_turns_that_had_little_to_do() -> None:
    batch_sizer = BatchSizer()
    for _ in range(100):
        batch_sizer.account(5, 0.05)
    assert max(lengths(batch_sizer, 1e-3, 40_000)) < _LONG
