from __future__ import annotations

import pytest

from penstock.spark.worker.pacing import Pacing


def test_should_keep_a_long_commit_interval_whatever_commits_cost() -> None:
    pacing = Pacing(commit_seconds=30.0, most=1_000)
    for work in (0.0, 1.0, 40.0):
        pacing.took(100, work, 5.0, 0)
        assert pacing.pause == 30.0


@pytest.mark.parametrize("commit", [0.0, 0.001, 0.05, 0.5, 10.0])
@pytest.mark.parametrize("records", [1, 31, 32, 10_000])
def test_should_never_pause_longer_than_the_commit_interval(records: int, commit: float) -> None:
    pacing = Pacing(commit_seconds=0.1, most=100_000)
    for _ in range(50):
        pacing.took(records, 0.0, commit, 0)
    assert 0.0 <= pacing.pause <= 0.1
    assert pacing.pause >= (0.04 if records < 32 else 0.02)


def test_should_pause_shorter_if_the_work_took_part_of_the_time() -> None:
    idle, busy = Pacing(0.1, 100_000), Pacing(0.1, 100_000)
    idle.took(100, 0.0, 0.08, 0)
    busy.took(100, 0.05, 0.08, 0)
    assert busy.pause < idle.pause
    busy.took(100, 100.0, 0.08, 0)
    assert busy.pause == 0.0


def test_should_never_take_more_than_allowed_nor_less_than_one() -> None:
    pacing = Pacing(0.1, most=50)
    assert pacing.records == 50
    pacing.took(50, 1e-9, 0.0, 1_000_000)
    assert pacing.records == 50
    pacing.took(50, 1e9, 0.0, 1_000_000)
    assert pacing.records == 1
    pacing.took(1, 0.0, 0.0, 0)
    assert pacing.records == 50


def test_should_take_more_if_it_falls_behind() -> None:
    level, behind = Pacing(0.1, 1_000_000), Pacing(0.1, 1_000_000)
    level.took(10_000, 1.0, 0.0, waiting=0)
    behind.took(10_000, 1.0, 0.0, waiting=50_000)
    assert (level.records, behind.records) == (5_000, 15_000)


def test_should_grow_step_by_step() -> None:
    pacing, sizes = Pacing(0.1, 1_000_000), list[int]()
    for _ in range(5):
        sizes.append(pacing.records)
        pacing.took(pacing.records, 0.0001, 0.0, 10**9)
    assert sizes == [1_000, 4_000, 16_000, 64_000, 256_000]


def test_should_learn_nothing_about_records_from_a_batch_of_timers() -> None:
    pacing = Pacing(0.1, 1_000_000)
    pacing.took(2_000, 0.1, 0.0, 0)
    known = pacing.records
    pacing.took(0, 3.0, 0.0, 0)
    assert pacing.records == known


def test_should_go_on_under_other_limits() -> None:
    pacing = Pacing(0.1, 1_000_000)
    pacing.took(10_000, 0.1, 0.0, 0)
    pacing.limit(0.6, 7)
    assert (pacing.records, pacing.pause) == (7, 0.6)
