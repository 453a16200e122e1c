"""How somebody who fails goes on."""

from __future__ import annotations

import pytest

from penstock.client.scheduling.health import Health


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def health(now: list[float]) -> Health:
    return Health(lambda: now[0])


def test_should_rest_longer_each_time_up_to_a_bound(health: Health) -> None:
    assert [health.failed() for _ in range(9)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_should_rest_until_its_time_has_come(health: Health, now: list[float]) -> None:
    assert not health.rests
    health.failed()
    assert health.rests
    now[0] += 0.1
    assert not health.rests


def test_should_count_from_the_first_failure_in_a_row(health: Health, now: list[float]) -> None:
    for _ in range(5):
        health.failed()
        now[0] += 6.0
    assert health.failing_seconds == 30.0
    health.went_well()
    assert health.failing_seconds == 0.0
    assert health.failed() == 0.1
    assert health.failing_seconds == 0.0


def test_should_not_count_a_failure_that_lies_far_back(health: Health, now: list[float]) -> None:
    health.failed()
    health.failed()
    now[0] += 31.0
    assert health.failed() == 0.1
    assert health.failing_seconds == 0.0
