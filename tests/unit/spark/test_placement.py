from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.driver.placement import choose_places

_EXECUTORS = st.lists(st.sampled_from("abcde"), min_size=1, unique=True)
_BEFORE = st.lists(st.one_of(st.none(), st.sampled_from("abcdefg")), max_size=8)


def test_should_leave_the_place_to_spark_without_executors() -> None:
    assert choose_places(["a", None], []) == [None, None]


def test_should_move_one_lane_to_an_executor_that_has_come() -> None:
    assert choose_places(["a", "a"], ["a", "b"]) == ["a", "b"]


def test_should_not_move_a_lane_for_a_difference_of_one() -> None:
    assert choose_places(["a", "a", "b"], ["a", "b"]) == ["a", "a", "b"]


@given(before=_BEFORE, there=_EXECUTORS)
def test_should_spread_lanes_evenly_over_the_executors_there_are(before: list[str | None], there: list[str]) -> None:
    chosen = choose_places(before, there)
    counts = Counter(dict.fromkeys(there, 0) | Counter(place for place in chosen if place))
    assert set(chosen) <= set(there)
    assert max(counts.values()) - min(counts.values()) < 2


@given(before=_BEFORE, there=_EXECUTORS)
def test_should_leave_everything_where_it_is_the_second_time(before: list[str | None], there: list[str]) -> None:
    chosen = choose_places(before, there)
    assert choose_places(chosen, there) == chosen
