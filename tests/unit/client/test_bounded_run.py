"""A backfill ends when its input is committed and repartition topics are read; then it is live, or nothing more is read."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.client.scheduling.bounded_run import BoundedProgress, InputEnds
from penstock.ids import TopicPartition
from tests.unit.client.simulated import WORDS, Brokers, World, consumed_once, make_plan

SOURCES = [*(TopicPartition("lines", p) for p in range(3)), *(TopicPartition("orders", p) for p in range(2))]
GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])


def backfilling(
    clock: list[float], ends: Mapping[TopicPartition, int], *, then_live: bool, **settings: Any
) -> tuple[World, list[str]]:
    """An instance that reads up to these ends; ten records of each source partition are there."""
    told: list[str] = []
    brokers = Brokers(make_plan(3, 4, 2))
    for partition in SOURCES:
        brokers.ends[partition] = 10
    world = World(clock, threads=2, brokers=brokers, ends=InputEnds(ends, then_live, lambda: told.append("done")), **settings)
    world.assign()
    return world, told


def finish_idle(world: World, rounds: int = 200) -> None:
    """Threads that have nothing to read leave, as they do after a while."""
    for _ in range(rounds):
        world.settle(1)
        for job in world.jobs():
            if job.processes and job.has_begun:
                job.report.was_idle = True
                world.jobs_of.finish(job)


def read(world: World) -> dict[TopicPartition, int]:
    return {p: world.brokers.committed[p].offset for p in SOURCES if p in world.brokers.committed}


@GUARANTEES
def test_should_read_nothing_beyond_the_ends_and_say_when_all_is_read(clock: list[float], guarantee: str) -> None:
    world, told = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=False, guarantee=guarantee)
    finish_idle(world)
    assert told == ["done"]
    assert read(world) == dict.fromkeys(SOURCES, 7)
    words = {p: end for p, end in world.brokers.ends.items() if p.topic == WORDS}
    assert {p: world.brokers.committed[p].offset for p in words} == words
    finish_idle(world, 20)
    assert read(world) == dict.fromkeys(SOURCES, 7)
    world.loop.stop()
    finish_idle(world, 50)
    world.loop.run()
    assert read(world) == dict.fromkeys(SOURCES, 7)
    assert max(world.brokers.consumed.values()) == 1


@GUARANTEES
def test_should_go_live_exactly_where_the_ends_were(clock: list[float], guarantee: str) -> None:
    world, told = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=True, guarantee=guarantee)
    finish_idle(world)
    assert told == ["done"]
    assert not world.loop.bounded.is_active
    finish_idle(world)
    consumed_once(world)


def test_should_be_done_at_once_where_there_is_nothing(clock: list[float]) -> None:
    world, told = backfilling(clock, {}, then_live=False)
    finish_idle(world, 60)
    assert told == ["done"]
    assert not read(world)


def test_should_use_all_threads(clock: list[float]) -> None:
    world, _ = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=True)
    world.settle(30)
    assert min(world.owned().values()) > 0


def test_should_not_be_done_before_what_was_written_behind_a_thread_is_read(clock: list[float]) -> None:
    """A repartition partition grows while the brokers are asked: nothing is done before it is read."""
    world, told = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=False)
    for _ in range(400):
        world.step()
        world.play()
        if world.loop.bounded.holds_back and world.background.pending:
            break
        world.do_background()
        for job in world.jobs():
            if job.processes and job.has_begun:
                job.report.was_idle = True
                world.jobs_of.finish(job)
        world.clock[0] += 0.05
    assert not told
    world.produce(WORDS, 0, 3)
    world.do_background()
    world.step()
    assert not told
    finish_idle(world)
    assert told == ["done"]
    assert world.brokers.committed[TopicPartition(WORDS, 0)].offset == world.brokers.ends[TopicPartition(WORDS, 0)]


@pytest.mark.parametrize("seed", range(5))
@GUARANTEES
def test_should_be_exact_whatever_fails(clock: list[float], guarantee: str, seed: int) -> None:
    world, told = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=True, guarantee=guarantee)
    world.on_failure = lambda error, thread: True
    world.shake(random.Random(seed), 300, failures=0.05 if guarantee == "exactly_once_v2" else 0.0)
    finish_idle(world, 600)
    assert told == ["done"]
    finish_idle(world)
    consumed_once(world)


def test_should_tell_how_far_it_has_come(clock: list[float]) -> None:
    world, _ = backfilling(clock, dict.fromkeys(SOURCES, 7), then_live=False)
    finish_idle(world)
    progress = world.loop.bounded.progress
    assert progress is not None
    assert progress.total == 35
    assert BoundedProgress(0, 0, 0.0).share == 1.0
    assert BoundedProgress(0, 10, 1.0).seconds_left is None
