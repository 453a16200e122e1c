"""Before the only member of a group stops, its threads read the repartition topics to their ends, and no source topic."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from penstock.spark.plan import Plan
from tests.unit.client.simulated import WORDS, Brokers, World, make_plan

GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
NEXT = "app-next-repartition"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if "repartition topics" in record.getMessage()]


def started(clock: list[float], threads: int = 2, **settings: Any) -> World:
    world = World(clock, threads=threads, **{"task.spread": "always", **settings})
    world.assign()
    world.settle(50)
    assert world.told == ["running"]
    return world


def write_words(world: World) -> None:
    """The first thread reads lines; the others have not read the words that it writes."""
    writer = next(job for job in world.residents() if job.thread == 0)
    for partition in range(3):
        world.produce("lines", partition, 5)
    world.jobs_of.advance(writer)
    assert unread(world, WORDS)


def unread(world: World, *topics: str) -> dict[TopicPartition, int]:
    committed = {p: some.offset for p, some in world.brokers.committed.items()}
    return {
        p: end - committed.get(p, 0) for p, end in world.brokers.ends.items() if p.topic in topics and end > committed.get(p, 0)
    }


def stop(world: World, seconds: float | None = None) -> None:
    """Close the instance; threads hear of it before their next batch."""
    world.loop.stop(seconds)
    world.step()
    world.do_background()


def closed(world: World, seconds: float | None = None) -> None:
    stop(world, seconds)
    world.settle(50)
    world.loop.run()
    assert not world.loop.is_processing


@GUARANTEES
def test_should_read_repartition_topics_to_their_ends_and_no_source_topic(
    clock: list[float], guarantee: str, warnings: Callable[[], list[str]]
) -> None:
    world = started(clock, guarantee=guarantee)
    write_words(world)
    closed(world)
    assert not unread(world, WORDS)
    assert sum(unread(world, "lines").values()) > 0
    assert set(world.jobs_of.drained) == {1}, "the first thread has read its own words"
    assert max(world.brokers.consumed.values()) == 1
    assert not warnings()


def chained_plan() -> Plan:
    """As `make_plan`, and what reads words writes to one more repartition topic, which the tasks 3_n read."""
    plan, third = make_plan(3, 4, 2), make_plan(3, 4, 2).subtopologies[1]
    subtopologies: dict[int, Any] = dict(plan.subtopologies)
    subtopologies[1].sink_topics = (NEXT,)
    subtopologies[3] = third
    third.id, third.source_topics, third.repartition_source_topics = 3, (NEXT,), {NEXT: None}  # type: ignore[misc, assignment]
    return Plan(subtopologies, {**plan.partitions, NEXT: 4})


class ChainedBrokers(Brokers):
    def consume(self, partition: TopicPartition, offsets: range) -> None:
        super().consume(partition, offsets)
        if partition.topic == WORDS:
            self.ends[TopicPartition(NEXT, (partition.partition + 1) % 4)] += len(offsets)


@GUARANTEES
def test_should_read_what_is_written_to_the_next_repartition_meanwhile(
    clock: list[float], guarantee: str, warnings: Callable[[], list[str]]
) -> None:
    plan = chained_plan()
    world = started(clock, 3, guarantee=guarantee, plan=plan, brokers=ChainedBrokers(plan))
    write_words(world)
    closed(world)
    assert world.brokers.ends[TopicPartition(NEXT, 0)] > 0
    assert not unread(world, WORDS, NEXT)
    assert not warnings()


@pytest.mark.parametrize("threads", [1, 2])
def test_should_need_no_spark_job_if_everything_is_read(
    clock: list[float], threads: int, warnings: Callable[[], list[str]]
) -> None:
    world = started(clock, threads)
    world.produce("lines", 0, 5)
    world.settle(20)
    assert not unread(world, WORDS)
    numbers = [job.number for job in world.residents()]
    assert numbers
    world.produce("lines", 1, 5)
    stop(world)
    world.until(lambda: not world.loop.is_processing)
    world.loop.run()
    assert not world.jobs_of.drained
    assert not any(world.jobs_of.pending.values())
    assert unread(world, "lines")
    assert not warnings()


@pytest.mark.parametrize("settings", [{"repartition.format": "records"}, {"plan": make_plan(3, 4, 2)}])
def test_should_not_drain_what_java_can_read(
    clock: list[float], settings: dict[str, Any], warnings: Callable[[], list[str]]
) -> None:
    plan = settings.get("plan")
    if plan is not None:
        settings = {"plan": Plan({2: plan.subtopologies[2]}, {"orders": 2, WORDS: 4})}
    world = started(clock, **settings)
    world.brokers.reachable_ends = None  # type: ignore[assignment, method-assign]  # nothing may be asked
    world.loop.stop()
    world.step()
    assert all(job.number for job in world.residents())
    closed(world)
    assert not world.jobs_of.drained
    assert not warnings()


def share(world: World) -> None:
    world.generation += 1
    tasks = tuple(world.plan.tasks())
    world.loop.assigned(Membership(world.generation, b"", tasks, hosts={"m1": "here", "m2": "there"}))


def test_should_leave_what_other_members_read(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    share(world)
    world.settle(10)
    write_words(world)
    closed(world)
    assert not world.jobs_of.drained
    assert not warnings()


def test_should_stop_draining_when_another_member_comes(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    write_words(world)
    stop(world)
    share(world)
    world.settle(20)
    world.loop.run()
    assert not world.jobs_of.drained
    assert not warnings()


def test_should_give_up_what_waits_for_a_source_topic_and_name_it(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    write_words(world)
    waiting = TopicPartition(WORDS, 2)
    world.brokers.waiting = {waiting}
    closed(world)
    assert unread(world, WORDS).keys() == {waiting}
    (warning,) = warnings()
    assert WORDS in warning
    assert "repartition.format = records" in warning


def test_should_drain_for_half_of_the_timeout_at_most(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    write_words(world)
    stop(world, 10.0)
    world.jobs_of.deaf = {0}
    began = clock[0]
    while clock[0] < began + 4.9:
        world.settle(1)
    assert not warnings()
    world.settle(5)
    world.jobs_of.deaf = set()
    world.settle(10)
    world.loop.run()
    assert WORDS in warnings()[0]


def test_should_stop_at_once_without_time(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    write_words(world)
    closed(world, 0.0)
    assert not world.jobs_of.drained
    assert unread(world, WORDS)


@pytest.mark.parametrize("goes_on", [True, False])
def test_should_stop_when_a_thread_fails_meanwhile(clock: list[float], goes_on: bool, warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    world.on_failure = lambda error, thread: goes_on
    write_words(world)
    stop(world)
    world.until(lambda: any(job.drains for job in world.residents()))
    world.jobs_of.fail(next(job for job in world.residents() if job.drains))
    world.settle(20)
    world.loop.run()
    assert len(world.failures) == 1
    assert WORDS in warnings()[0]


def test_should_stop_when_brokers_do_not_tell_the_ends(clock: list[float], warnings: Callable[[], list[str]]) -> None:
    world = started(clock)
    write_words(world)
    world.brokers.away = {TopicPartition(WORDS, 1)}
    closed(world)
    assert unread(world, WORDS).keys() <= world.brokers.away
    assert WORDS in warnings()[0]


def test_should_drain_only_from_running(clock: list[float]) -> None:
    world = started(clock)
    write_words(world)
    world.loop.pause(True)
    closed(world)
    assert not world.jobs_of.drained
    assert TaskId(1, 0) in world.loop.owners
