"""Nothing is lost and nothing comes twice, at whichever step of a turn a lane dies and whatever comes next."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.worker import lane_worker, step_sizes
from tests.unit.spark.crash_cases import CASES, PARTITIONS, Case
from tests.unit.spark.crash_world import APPLICATION, LANES, Brokers, Crash, Instance, Step

pytestmark = pytest.mark.sampled(3)

OTHER = {"shuffle": "topic", "topic": "shuffle"}


class Application:
    """A case, its brokers, and the instances of it that there have been."""

    def __init__(self, case: Case, folder: Path, transport: str = "auto") -> None:
        self.case, self.folder = case, folder
        self.transport = transport
        topology = case.topology().internal_topology_builder
        subtopologies = topology.subtopologies(APPLICATION, {})
        topics = {t for s in subtopologies for t in (*s.source_topics, *s.changelog_topics, *s.sink_topics)}
        self.brokers = Brokers(dict.fromkeys({*topics, *case.outputs}, PARTITIONS))
        self.instances: list[Instance] = []
        self.instance = self.start()

    def start(self, process: str = "a", transport: str | None = None, *, wait: bool = True) -> Instance:
        """Another run; the one before is dead."""
        for instance in self.instances:
            instance.die()
        self.transport = transport or self.transport
        config = {**self.case.config, "repartition.transport": self.transport}
        self.instance = Instance(self.case.topology(), self.brokers, self.folder, process, config)
        self.instances.append(self.instance)
        self.instance.open(wait=wait)
        return self.instance

    def turn(self, at: Callable[[int, Step], None] = lambda lane, step: None, **how: Any) -> bool:
        """A turn in which some wait for what is not fetched."""
        return self.instance.turn(at, up_to=dict.fromkeys(self.case.waits, 2), **how)

    def results(self) -> dict[str, Any]:
        """All that was committed, as it is compared."""
        return {topic: compared(self.brokers.values(topic)) for topic, compared in self.case.outputs.items()}


def crash_at(lane: int, step: Step, times: int = 1) -> Callable[[int, Step], None]:
    """What ends a lane at a step."""
    left = itertools.count(times - 1, -1)

    def reached(reached_lane: int, reached_step: Step) -> None:
        if (reached_lane, reached_step) == (lane, step) and next(left) == 0:
            raise Crash(step)

    return reached


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results and stores of a run in which nothing happens."""
    with tempfile.TemporaryDirectory() as folder:
        application = Application(CASES[name], Path(folder))
        for part in range(3):
            application.case.feed(application.brokers, part)
            application.instance.run()
        found = application.results(), application.instance.stores()
        application.instance.die()
        return found


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    made: list[Application] = []

    def start(name: str, transport: str = "auto") -> Application:
        """A first part is processed, a second one is there."""
        application = Application(CASES[name], tmp_path, transport)
        made.append(application)
        application.case.feed(application.brokers, 0)
        application.turn()
        application.case.feed(application.brokers, 1)
        return application

    yield start
    for application in made:
        for instance in application.instances:
            instance.die()


def finish(name: str, application: Application, max_records: int = 1_000_000) -> None:
    """The third part comes; then everything is as if nothing had happened, also for one who knows no more than Kafka does."""
    application.case.feed(application.brokers, 2)
    end(name, application, max_records)


def end(name: str, application: Application, max_records: int = 1_000_000) -> None:
    """All three parts are there."""
    application.instance.run(max_records)
    expected, stores = undisturbed(name)
    assert application.results() == expected
    here = application.instance.stores()
    if application.case.same_stores:
        assert here == stores
    fresh = application.start("fresh")
    assert fresh.stores() == here
    assert not application.brokers.open
    application.instance.run()
    assert application.results() == expected


def test_should_give_results_that_tell_something() -> None:
    for name, case in CASES.items():
        results, _ = undisturbed(name)
        assert results.keys() == case.outputs.keys()
        assert all(results.values()), name


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", CASES)
def test_should_go_on_where_a_lane_died(begin: Callable[..., Application], name: str, step: Step, lane: int) -> None:
    """Its stores are there, and are behind or not."""
    application = begin(name)
    application.turn(crash_at(lane, step))
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", CASES)
def test_should_go_on_where_a_lane_died_that_had_no_time_for_all_records(
    begin: Callable[..., Application], name: str, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is given the time of one record a turn: the others wait in its queue, and are read again by whoever goes on."""
    monkeypatch.setattr(lane_worker, "_LONGEST_TURN", 0.0)
    application = begin(name)
    application.turn()
    application.turn(crash_at(0, step))
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", CASES)
def test_should_go_on_elsewhere_without_any_stores(begin: Callable[..., Application], name: str, step: Step) -> None:
    """Another process takes over, which cannot end the transaction that was left open: it waits."""
    application = begin(name)
    application.turn(crash_at(0, step))
    application.instance.die()
    taker = take_over(application)
    hides = any(p.topic.endswith("-changelog") for t in application.brokers.open.values() for p in t.partitions)
    assert taker.restore() is not hides
    application.brokers.time_out()
    assert taker.restore()
    finish(name, application)


def take_over(application: Application) -> Instance:
    """Another process opens everything, as far as it can while transactions are open."""
    application.brokers.generation += 1
    if any(transaction.offsets for transaction in application.brokers.open.values()):
        application.brokers.time_out()  # nobody is told offsets that are about to change: it asks until that is decided
    return application.start("b", wait=False)


@pytest.mark.parametrize("step", [Step.PRODUCED, Step.COMMITTED, Step.STORE_WRITTEN])
@pytest.mark.parametrize("name", [name for name in CASES if name != "stateless"])
def test_should_restore_on_where_a_restore_died(
    begin: Callable[..., Application], monkeypatch: pytest.MonkeyPatch, name: str, step: Step
) -> None:
    """Each attempt reads one batch more than the one before it, from where that had come to, or from the start."""
    monkeypatch.setattr(step_sizes, "RESTORE", 2)
    application = begin(name)
    application.turn(crash_at(1, step))
    application.instance.die()
    application.brokers.time_out()
    for attempt in itertools.count():
        application.brokers.on_fetch = crash_after(1 + attempt)
        taker = application.start("b", wait=False)
        try:
            while not taker.restore():
                pass
            break
        except Crash:
            assert attempt < 100
    assert attempt > 1
    application.brokers.on_fetch = lambda: None
    finish(name, application)


def crash_after(fetches: int) -> Callable[[], None]:
    """What ends whoever reads more than so often."""
    left = itertools.count(fetches, -1)

    def fetched() -> None:
        if next(left) <= 0:
            raise Crash("between two batches")

    return fetched


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", CASES)
def test_should_go_on_after_another_has_had_it_for_a_generation(begin: Callable[..., Application], name: str, step: Step) -> None:
    """What comes back finds its old stores, from before the other one went on; both die on the way."""
    application = begin(name)
    application.turn(crash_at(0, step))
    application.instance.die()
    application.brokers.time_out()
    application.brokers.generation += 1
    application.start("b")
    application.turn(crash_at(1, step), max_records=5)
    application.instance.die()
    application.brokers.time_out()
    application.brokers.generation += 1
    application.start("a")
    finish(name, application)


@pytest.mark.parametrize("step", [Step.BEGUN, Step.PRODUCED_IN_PART, Step.PRODUCED])
@pytest.mark.parametrize("name", ["count", "words", "join"])
def test_should_refuse_a_lane_that_comes_too_late_for_its_generation(
    begin: Callable[..., Application], name: str, step: Step
) -> None:
    """The other one is opened while the turn is under way, and is right when that has been refused."""
    application = begin(name)
    late = application.instance
    takers: list[Instance] = []

    def meanwhile(lane: int, reached: Step) -> None:
        if reached == step and not takers:
            application.brokers.generation += 1
            config = {**application.case.config, "repartition.transport": application.transport}
            taker = Instance(application.case.topology(), application.brokers, application.folder, "b", config)
            takers.append(taker)
            application.instances.append(taker)
            taker.open(wait=False)
            taker.restore()

    application.turn(meanwhile)
    assert len(late.lanes) < len(LANES)  # who had not committed by then was refused
    late.die()
    [application.instance] = takers
    while not application.instance.restore():
        pass
    finish(name, application)


SHUFFLING = ["words", "join", "windows"]


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("transport", OTHER)
@pytest.mark.parametrize("name", [*SHUFFLING, "words counted"])
def test_should_go_on_with_another_transport_where_a_lane_died(
    begin: Callable[..., Application], name: str, transport: str, step: Step
) -> None:
    application = begin(name, transport)
    application.turn(crash_at(list(Step).index(step) % 2, step))
    application.start(transport=OTHER[transport])
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("transport", OTHER)
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_change_the_transport_though_lanes_die_while_it_changes(
    begin: Callable[..., Application], name: str, transport: str, step: Step
) -> None:
    """Also while what was left in the topic is read, a few records a turn."""
    application = begin(name, transport)
    application.turn(crash_at(1, step), max_records=3)
    application.start(transport=OTHER[transport])
    for turn in range(6):
        application.turn(crash_at(turn % 2, step), max_records=2)
        if not application.instance.is_open:
            application.start()
    finish(name, application)


@pytest.mark.parametrize("shows_lag", [True, False])
@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("transport", OTHER)
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_change_the_transport_there_and_back_at_any_time(
    begin: Callable[..., Application], name: str, transport: str, step: Step, shows_lag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the lag of sources is never shown in time: that is not taken for an offset that somebody has moved."""
    monkeypatch.setattr(Instance, "shows_lag", shows_lag)
    application = begin(name, transport)
    for turn in range(6):
        application.turn(crash_at(turn % 2, step), max_records=2 + turn % 3)
        application.start(transport=OTHER[application.transport])
    finish(name, application)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("then", OTHER)
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_leave_the_shuffle_by_one_commit(begin: Callable[..., Application], name: str, then: str, committed: bool) -> None:
    """Who dies before it has changed nothing; who dies after it has changed everything, whichever transport comes next."""
    application = begin(name, "shuffle")
    application.turn(crash_at(0, Step.PRODUCED), max_records=5)
    application.instance.die()
    application.brokers.time_out()
    config = {**application.case.config, "repartition.transport": "topic"}
    driver = Instance(application.case.topology(), application.brokers, application.folder, "a", config)
    before = dict(application.brokers.offsets)
    if committed:
        driver.leave_shuffle()
        assert application.brokers.offsets != before
    else:
        assert driver.positions.leaving_shuffle()
        assert application.brokers.offsets == before
    application.start(transport=then)
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("first", OTHER)
@pytest.mark.parametrize("name", [*SHUFFLING, "words counted"])
def test_should_change_over_between_two_turns_of_a_running_instance(
    begin: Callable[..., Application], name: str, first: str, step: Step
) -> None:
    """The lanes go on with what they know; one that has died on the way is opened anew."""
    application = begin(name)
    instance = application.instance
    if first == "topic":
        instance.change_over()
        instance.open()
    application.turn(crash_at(list(Step).index(step) % 2, step), max_records=4)
    instance.change_over()
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("first", OTHER)
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_change_over_in_the_midst_of_a_turn(begin: Callable[..., Application], name: str, first: str, step: Step) -> None:
    """What was not committed by then is refused; the lane that is late fails, and is opened for the new generation."""
    application = begin(name)
    instance, moved = application.instance, list[int]()
    if first == "topic":
        instance.change_over()
        instance.open()

    def next_generation(lane: int, reached: Step) -> None:
        if reached == step and not moved:
            moved.append(lane)
            application.brokers.generation += 1

    application.turn(next_generation, max_records=7)
    instance.change_over()
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_change_over_again_and_again_while_lanes_die(begin: Callable[..., Application], name: str, step: Step) -> None:
    """Also before the topic was drained, and before what the tasks had was passed."""
    application = begin(name)
    instance = application.instance
    for turn in range(8):
        if not instance.is_open:
            instance.open()
        application.turn(crash_at(turn % 2, step), max_records=2 + turn % 3)
        if turn % 3:
            instance.change_over()
    finish(name, application)


@pytest.mark.parametrize("way", ["shuffle", "topic"])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("name", SHUFFLING)
def test_should_go_on_where_a_leader_died_that_changed_over(
    begin: Callable[..., Application], name: str, committed: bool, way: str
) -> None:
    """Before or after the one commit by which the shuffle is left; whoever is next has no state and goes either way."""
    application = begin(name)
    leader = application.instance
    application.turn(crash_at(0, Step.PRODUCED), max_records=5)
    leader.change_over()
    if committed:
        application.brokers.time_out()
        leader.generation = application.brokers.generation
        leader.leave_shuffle()
    leader.die()
    application.brokers.time_out()
    application.brokers.generation += 1
    application.start("b", transport={"shuffle": "auto", "topic": "topic"}[way])
    finish(name, application)


@pytest.mark.parametrize("transport", ["auto", "topic"])
@pytest.mark.parametrize("name", CASES)
def test_should_not_go_on_with_stores_that_have_what_was_taken_back(
    name: str, transport: str, begin: Callable[..., Application]
) -> None:
    """Brokers say that a transaction is committed, and abort it with the next one: stores have it, and nobody else."""
    application = begin(name, transport)
    application.instance.run()
    application.case.feed(application.brokers, 2)
    application.brokers.loses_markers = True
    application.turn()
    application.brokers.loses_markers = False
    application.instance.die()
    application.brokers.abort_unmarked()
    application.start()
    end(name, application)
