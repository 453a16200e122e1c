"""How many records of a turn are taken at once."""

from __future__ import annotations

import math

import pytest

from penstock.runtime import pace
from penstock.runtime.pace import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(pace, "monotonic", lambda: now[0])
    return now


def test_should_take_all_where_there_is_no_end() -> None:
    assert Pace().next_part(100_000, math.inf) == 100_000


def test_should_begin_with_few_and_take_all_that_fits(clock: list[float]) -> None:
    paced = Pace()
    first = paced.next_part(100_000, until=102.0)
    assert first == 500
    clock[0] += first * 0.00001
    paced.done(first)
    assert paced.next_part(100_000 - first, until=102.0) == 100_000 - first


def test_should_take_half_of_what_fits_where_records_are_costly(clock: list[float]) -> None:
    paced = Pace()
    clock[0] += paced.next_part(100_000, until=102.0) * 0.0001
    paced.done(500)
    assert paced.next_part(99_500, until=clock[0] + 2.0) == pytest.approx(10_000, abs=1)


def test_should_not_learn_from_a_handful(clock: list[float]) -> None:
    paced = Pace()
    paced.next_part(10, until=102.0)
    clock[0] += 1.0
    paced.done(10)
    assert paced.next_part(10_000, until=104.0) == 500


def test_should_take_few_where_time_is_up(clock: list[float]) -> None:
    paced = Pace()
    clock[0] += paced.next_part(1_000, until=102.0) * 0.01
    paced.done(500)
    assert paced.next_part(900, until=102.0) == 500
