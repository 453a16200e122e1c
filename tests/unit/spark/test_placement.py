from __future__ import annotations

import logging
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.driver import placement
from penstock.spark.driver.placement import Executors, NoExecutorsError, choose_places, wait_for_executors

_EXECUTORS = st.lists(st.sampled_from("abcde"), min_size=1, unique=True)
_BEFORE = st.lists(st.one_of(st.none(), st.sampled_from("abcdefg")), max_size=8)


class _Cluster:
    """A session on a cluster whose executors come at a time; its clock goes on when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, comes_at: float) -> None:
        self._now = 0.0
        monkeypatch.setattr(placement, "time", SimpleNamespace(monotonic=lambda: self._now, sleep=self._sleep))
        monkeypatch.setattr(placement, "known_places", lambda _: Executors(["executor_host_1"] if self._now >= comes_at else []))
        monkeypatch.setattr(placement, "is_local", lambda _: False)
        conf = SimpleNamespace(getAll=list, get=lambda _, default: default)
        self.context: Any = SimpleNamespace(master="spark://host:7077", getConf=lambda: conf)

    def _sleep(self, _: float) -> None:
        self._now += 1.0


def test_should_wait_for_a_cluster_that_grows_and_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = wait_for_executors(_Cluster(monkeypatch, comes_at=200.0).context, 600.0)
    assert found == ["executor_host_1"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 6
    assert "has provided no executor yet. Waiting 569 s more" in said[0]


def test_should_give_up_on_a_cluster_that_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoExecutorsError, match=r"within 600 s\. Check that the cluster is up"):
        wait_for_executors(_Cluster(monkeypatch, comes_at=1e9).context, 600.0)


def test_should_not_wait_for_executors_that_nobody_wants_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter([None, None, RuntimeError("closed")])

    def check() -> None:
        if (error := next(asked)) is not None:
            raise error

    with pytest.raises(RuntimeError, match="closed"):
        wait_for_executors(_Cluster(monkeypatch, comes_at=1e9).context, 600.0, check)


def test_should_leave_the_place_to_spark_without_executors() -> None:
    assert choose_places(["a", None], []) == [None, None]


def test_should_move_one_thread_to_an_executor_that_has_come() -> None:
    assert choose_places(["a", "a"], ["a", "b"]) == ["a", "b"]


def test_should_not_move_a_thread_for_a_difference_of_one() -> None:
    assert choose_places(["a", "a", "b"], ["a", "b"]) == ["a", "a", "b"]


@given(before=_BEFORE, there=_EXECUTORS)
def test_should_spread_threads_evenly_over_the_executors_there_are(before: list[str | None], there: list[str]) -> None:
    chosen = choose_places(before, there)
    counts = Counter(dict.fromkeys(there, 0) | Counter(place for place in chosen if place))
    assert set(chosen) <= set(there)
    assert max(counts.values()) - min(counts.values()) < 2


@given(before=_BEFORE, there=_EXECUTORS)
def test_should_leave_everything_where_it_is_the_second_time(before: list[str | None], there: list[str]) -> None:
    chosen = choose_places(before, there)
    assert choose_places(chosen, there) == chosen
