"""How somebody who fails goes on."""

from __future__ import annotations

import pytest

from penstock.client.scheduling.backoff import Backoff


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def backoff(now: list[float]) -> Backoff:
    return Backoff(lambda: now[0])


def test_should_rest_longer_each_time_up_to_a_bound(backoff: Backoff) -> None:
    assert [backoff.failed() for _ in range(9)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_should_rest_until_its_time_has_come(backoff: Backoff, now: list[float]) -> None:
    assert not backoff.rests
    backoff.failed()
    assert backoff.rests
    now[0] += 0.1
    assert not backoff.rests


def test_should_count_from_the_first_failure_in_a_row(backoff: Backoff, now: list[float]) -> None:
    for _ in range(5):
        backoff.failed()
        now[0] += 6.0
    assert backoff.failing_seconds == 30.0
    backoff.went_well()
    assert backoff.failing_seconds == 0.0
    assert backoff.failed() == 0.1
    assert backoff.failing_seconds == 0.0


def test_should_not_count_a_failure_that_lies_far_back(backoff: Backoff, now: list[float]) -> None:
    backoff.failed()
    backoff.failed()
    now[0] += 31.0
    assert backoff.failed() == 0.1
    assert backoff.failing_seconds == 0.0
