"""When tasks are spread over all threads and when they are gathered: an application whose clock is simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from penstock.client.scheduling.task_spread import TaskSpread

COMMIT_INTERVAL = 0.1


@dataclass
class Simulated:
    """An application whose records arrive at `rate(time)` a second and cost `cost` seconds each, over `threads`.

    A batch takes `fixed` seconds and a commit; spread over threads it takes `fixed` for each. A move takes `move` seconds.
    """

    rate: Callable[[float], float]
    cost: float
    threads: int = 4
    fixed: float = 0.05
    commit: float = 0.03
    move: float = 2.0
    dear: bool = False
    timers: bool = False
    spread: TaskSpread = field(default_factory=TaskSpread)
    now: float = 0.0
    moves: list[float] = field(default_factory=list)
    lags: list[tuple[float, float]] = field(default_factory=list)

    def run(self, seconds: float) -> Simulated:
        self.spread._now = lambda: self.now
        is_spread, arrived, read, last = False, 0.0, 0, 0.0
        waiting: list[tuple[float, int]] = []
        while self.now < seconds:
            arrived, last = arrived + self.rate(last) * (self.now - last), self.now
            backlog = int(arrived) - read
            if not backlog:
                self.now += 0.05
                continue
            waiting.append((self.now, int(arrived)))
            if self.spread.wants(backlog, moves_are_dear=self.dear, has_timers=self.timers) != is_spread:
                is_spread = self.spread.is_spread
                self.moves.append(self.now)
                self.now += self.move
                continue
            threads = self.threads if is_spread else 1
            records = min(backlog, max(100, int(3.0 * threads / self.cost)))
            work = records * self.cost / threads + 0.005
            began, took = self.now, self.fixed * threads + self.commit + work
            self.now += took
            read += records
            while waiting and waiting[0][1] <= read:
                seen, _ = waiting.pop(0)
                self.lags.append((self.now, self.now - seen))
            self.spread.batch_done(began, self.now, work=work * threads, records=records, left=backlog - records)
            if took < COMMIT_INTERVAL and backlog <= records:
                self.now = began + COMMIT_INTERVAL
        return self

    def longest_lag(self, after: float = 0.0) -> float:
        """Between the moment when records were first seen and the end of their batch."""
        return max(lag for at, lag in self.lags if at >= after)


def constant(rate: float) -> Callable[[float], float]:
    return lambda _: rate


# -- simulated load ----------------------------------------------------------------------------------------------------


def test_should_keep_up_with_half_of_what_four_threads_can_do_at_5_ms_a_record() -> None:
    # One thread does 200 records a second, four do 800; 400 come.
    found = Simulated(constant(400), 0.005).run(600)
    assert len(found.moves) == 1
    assert found.moves[0] < 10
    assert found.longest_lag() < 15
    assert found.longest_lag(after=60) < 4


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("cost", [20e-6, 0.002, 0.2])
@pytest.mark.parametrize("load", [0.05, 0.25, 0.5, 0.75])
def test_should_bound_lag_and_moves_at_any_constant_load(threads: int, cost: float, load: float) -> None:
    found = Simulated(constant(load * threads / cost), cost, threads).run(400)
    assert len(found.moves) <= 2
    assert found.longest_lag(after=120) < 6 + 20 * cost
    assert found.spread.is_spread == (load * threads > 0.6) or 0.5 < load * threads <= 0.75


@pytest.mark.parametrize(("rate", "cost"), [(100, 20e-6), (1_000, 20e-6), (10_000, 20e-6), (1, 0.05), (50, 0.005)])
@pytest.mark.parametrize(("fixed", "commit"), [(0.05, 0.01), (0.6, 0.09)])
def test_should_stay_in_one_thread_that_has_time_to_spare_however_slow_batches_are(
    rate: float, cost: float, fixed: float, commit: float
) -> None:
    found = Simulated(constant(rate), cost, fixed=fixed, commit=commit).run(120)
    assert found.moves == []


def test_should_spread_as_load_grows_and_gather_when_it_is_gone() -> None:
    found = Simulated(lambda at: 20.0 if at < 60 else 700.0 if at < 300 else 20.0, 0.005).run(600)
    assert len(found.moves) == 2
    assert 60 < found.moves[0] < 70
    assert 320 < found.moves[1] < 360
    assert found.longest_lag() < 20


@pytest.mark.parametrize("every", [45, 300])
def test_should_not_move_for_ever_with_bursts(every: int) -> None:
    found = Simulated(lambda at: 600.0 if at % every < 8 else 5.0, 0.005).run(2 * 3600)
    assert len(found.moves) < 25
    assert len([at for at in found.moves if at > 3600]) <= 4
    assert found.longest_lag() < 40


def test_should_not_move_to_and_fro_at_the_edge_of_what_one_thread_carries() -> None:
    found = Simulated(lambda at: 115.0 if int(at / 40) % 2 else 125.0, 0.005).run(1800)
    assert len(found.moves) <= 1
    assert found.longest_lag() < 15


def test_should_spread_where_one_thread_falls_behind_though_it_works_little() -> None:
    # What takes its time is not the threads' own work but, say, the brokers.
    spread, now = TaskSpread(now=lambda: now), 0.0
    for number in range(30):
        spread.batch_done(now, now + 0.5, work=0.1, records=1000, left=number * 200)
        now += 0.5
    assert spread.wants(backlog=5_000)
    assert "wait" in spread.reason


# -- single decisions --------------------------------------------------------------------------------------------------


def test_should_spread_a_backlog_from_the_start_before_it_knows_what_a_record_costs() -> None:
    assert not TaskSpread().wants(backlog=10_000)
    assert TaskSpread().wants(backlog=50_000)
    assert TaskSpread().wants(backlog=0, to_restore=50_000)


def test_should_spread_a_backlog_by_what_its_records_cost() -> None:
    now = [0.0]

    def worked(cost: float) -> TaskSpread:
        now[0] = 0.0
        spread = TaskSpread(now=lambda: now[0])
        for _ in range(5):
            now[0] += 2.0
            spread.batch_done(now[0] - 0.3, now[0], work=0.2, records=int(0.2 / cost), left=0)
        return spread

    assert worked(0.005).wants(backlog=1_000)
    assert not worked(0.005).wants(backlog=200)
    assert not worked(0.00001).wants(backlog=50_000)
    assert worked(0.00001).wants(backlog=500_000)


def test_should_learn_nothing_of_the_cost_from_batches_that_were_slow_once() -> None:
    now = 0.0
    spread = TaskSpread(now=lambda: now)
    for work in (9.0, 0.9, 0.4, 0.01, 0.3):  # consumers that connect, a machine that is busy
        now += work + 2.0
        spread.batch_done(now - work, now, work=work, records=2, left=0)
    assert not spread.wants(backlog=300)


def test_should_count_the_work_of_batches_that_overlap() -> None:
    now = 10.0
    spread = TaskSpread(now=lambda: now)
    assert spread.wants(backlog=50_000)
    for _ in range(100):  # each thread alone
        now += 1.0
        for thread in range(4):
            spread.batch_done(now - 1.0 + thread / 10, now + thread / 10, work=0.1, records=20, left=0)
    assert spread.wants(backlog=80), "0.4 of a thread's time is too much to gather"
    for _ in range(100):
        now += 1.0
        for thread in range(4):
            spread.batch_done(now - 1.0 + thread / 10, now + thread / 10, work=0.05, records=10, left=0)
    assert not spread.wants(backlog=40)


def test_should_gather_later_where_state_would_have_to_go_to_another_host() -> None:
    def load(at: float) -> float:
        return 600.0 if at < 60 else 1.0

    near, far = (Simulated(load, 0.005, dear=dear).run(900) for dear in (False, True))
    assert [len(found.moves) for found in (near, far)] == [2, 2]
    assert near.moves[1] < 120
    assert 300 < far.moves[1] < 400


def test_should_move_tasks_with_wall_clock_punctuators_once_however_the_load_comes_and_goes() -> None:
    def load(at: float) -> float:
        return 600.0 if at % 900 < 60 else 1.0

    plain, timed = (Simulated(load, 0.005, timers=timers).run(3600) for timers in (False, True))
    assert len(plain.moves) > 4
    assert len(timed.moves) == 1


def test_should_always_be_spread_where_that_is_asked_for() -> None:
    found = Simulated(constant(1), 0.0001, spread=TaskSpread(always=True)).run(300)
    assert len(found.moves) == 1
    assert found.moves[0] < 2
    found.spread.forget()
    assert found.spread.wants(backlog=0)


def test_should_begin_anew_when_only_one_thread_is_left() -> None:
    spread = TaskSpread()
    assert spread.wants(backlog=50_000)
    spread.forget()
    assert not spread.wants(backlog=0)


def test_should_stay_spread_once_a_task_has_failed() -> None:
    spread = TaskSpread(now=lambda: 1e6)
    assert not spread.wants(0)
    spread.pin("a task has failed")
    assert spread.wants(0)
    assert spread.reason == "a task has failed"
    spread.forget()
    assert spread.is_spread
