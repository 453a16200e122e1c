from __future__ import annotations

from collections import Counter

import pytest

from penstock.client.rates import RATE_SECONDS, REPORT_DELAY, Rates
from penstock.runtime.flow import Flow
from penstock.spark.messages import BatchReport, ThreadReport


class World:
    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.rates = Rates(lambda: self.now)

    def report(self, records: int, after: float = 1.0, busy: int = 0) -> None:
        self.now += after
        flow = Flow(Counter({("source", "count"): records}), busy=Counter({"count": busy}))
        self.rates.reported({0: ThreadReport("w", batches=(BatchReport(self.now, 0.1, {"in": records}),), flow=flow)})

    @property
    def records(self) -> float:
        return self.rates.per_second()["records_per_second"]


def test_should_show_the_same_rate_whenever_it_is_looked_at() -> None:
    world, seen = World(), set()
    for _ in range(20):
        world.report(450, after=0.9)
        world.report(550, after=1.1)
    for _ in range(10):
        world.now += 0.1
        seen.add(world.records)
        assert world.rates.per_second()["edges"]["source", "count"] == pytest.approx(500, rel=0.01)
    assert seen == {500.0}


def test_should_know_the_rate_of_an_application_that_has_just_begun() -> None:
    world = World()
    for _ in range(5):
        world.report(300)
    assert world.records == pytest.approx(300)


def test_should_fall_to_zero_when_nothing_comes() -> None:
    world = World()
    for _ in range(20):
        world.report(100)
    world.now += REPORT_DELAY + RATE_SECONDS
    assert world.records == 0
    assert world.rates.per_second()["totals"]["records"] == 2000
    world.report(100, after=60)
    world.now += REPORT_DELAY
    assert world.records == 10, "what comes after a pause was not done during all of it"


def test_should_tell_which_nodes_are_busy() -> None:
    world = World()
    for _ in range(20):
        world.report(1, busy=250)
    assert world.rates.busy() == {"count": 0.25}
    world.now += 20
    assert world.rates.busy() == {}
