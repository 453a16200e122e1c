from __future__ import annotations

import pytest

from bench.job import Row, Run, medians, size_row, time_row
from bench.probe import Expected, Output


def _runs(java: list[float], penstock: list[float]) -> list[Run]:
    sides = (("java", java), ("penstock", penstock))
    return [Run("v", side, number, {"seconds": value}) for side, values in sides for number, value in enumerate(values, 1)]


def test_should_take_the_median_of_the_rounds_ratios() -> None:
    # The median of the ratios, not the ratio of the medians: a slow minute slows both sides of its round.
    assert medians(_runs([10, 100, 12], [5, 20, 4]), "v", "seconds") == (12, 5, pytest.approx(1 / 3))


def test_should_put_seconds_as_a_ratio_of_throughputs() -> None:
    row = time_row(_runs([12], [4]), "v", "seconds", "label", 2.0)
    assert (row.ratio, row.reached, row.times_better, row.goal_times_better) == (pytest.approx(3), True, pytest.approx(3), 2.0)


def test_should_put_latency_as_a_ratio_of_times() -> None:
    row = size_row(_runs([100], [50]), "v", "seconds", "label", "ms", 0.4)
    assert (row.ratio, row.reached, row.times_better, row.goal_times_better) == (0.5, False, 2.0, 2.5)


def test_should_do_without_the_other_side() -> None:
    row = time_row(_runs([], [4]), "v", "seconds", "label")
    assert (row.java, row.ratio, row.times_better, row.reached) == (None, None, None, None)


def test_should_refuse_a_variant_that_was_not_run() -> None:
    with pytest.raises(ValueError, match="has not run w"):
        medians(_runs([1], [1]), "w", "seconds")


def test_should_be_complete_with_the_last_value_of_each_key() -> None:
    output, expected = Output(), Expected({b"a": b"2", b"b": b"1"}, records=3)
    for key, value in ((b"a", b"1"), (b"b", b"1")):
        output.take(key, value)
    assert not output.is_complete(expected)
    assert output.missing(expected) == "1 of 2 keys are missing or not final, 2 records of 3"
    output.take(b"a", b"2")
    assert output.is_complete(expected)


def test_should_not_call_a_row_without_a_goal_reached() -> None:
    assert Row("label", "s", 1.0, 1.0, 1.0).reached is None
