"""From generation to generation: what the conductor closes, opens and leaves alone, over lanes that only take notes."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.conductor import Conductor
from penstock.client.events import Events
from penstock.client.hold import Hold
from penstock.client.units import units_of
from penstock.config import StreamsConfig
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.membership import Membership
from penstock.spark.messages import LaneAnswer
from penstock.spark.plan import Plan
from penstock.topology.specs import Subtopology

PLAN = Plan({0: Subtopology(0, (), {}, (), {}, ("clicks",), (), {}, {})}, {"clicks": 4}, {})
A, B, C, D = PLAN.tasks()


class Fleet:
    """One lane that opens what it is told."""

    def __init__(self) -> None:
        self.lanes = {0: SimpleNamespace(name="lane", last_used=math.inf)}
        self.hosts = {0: ""}
        self.application = SimpleNamespace(client_id="app")
        self.updaters = SimpleNamespace(is_local=False, hosts=lambda: [""])
        self.opened: list[list[TaskId]] = []
        self.begun: tuple[TaskId, ...] = ()

    def place(self) -> None:
        """Nowhere to go."""

    def open(self, owned: Mapping[int, Mapping[TaskId, Any]], seconds: float = 2.0) -> dict[int, LaneAnswer]:
        self.opened.append(sorted(owned[0]))
        return {0: LaneAnswer("lane", begun=self.begun)}


class Positions:
    """Keeps which tasks were read from Kafka, in order."""

    def __init__(self) -> None:
        self.read: list[list[TaskId]] = []
        self.tasks: set[TaskId] = set()
        self.vectors: dict[Any, Any] = {}
        self.fetched: dict[Any, Any] = {}
        self.draining: dict[Any, Any] = {}

    def load(self, tasks: Iterable[TaskId]) -> None:
        self.tasks = set()
        self.add(tasks)

    def add(self, tasks: Iterable[TaskId]) -> None:
        self.read.append(sorted(tasks))
        self.tasks |= set(self.read[-1])

    def drop(self, tasks: Iterable[TaskId]) -> None:
        self.tasks -= set(tasks)

    def of_task(self, task: TaskId) -> dict[Any, Any]:
        return {}

    def check(self, ends: Any) -> None:
        pass

    def sources(self) -> list[TopicPartition]:
        return []


class Instance:
    """A conductor with nothing real around it."""

    def __init__(self, guarantee: str = "exactly_once_v2") -> None:
        config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1", "processing.guarantee": guarantee})
        self.fleet, self.positions = Fleet(), Positions()
        ends = lambda partitions, _: dict.fromkeys(partitions, 0)  # noqa: E731 - both are asked the same way
        admin = SimpleNamespace(log_ends=ends, reachable_ends=ends)
        fakes: Any = (self.fleet, admin, self.positions)
        self.conductor = Conductor(config, PLAN, *fakes, units_of(PLAN), Events())

    def assigned(self, generation: int, *tasks: TaskId) -> None:
        self.conductor.assigned(Membership(generation, b"", tuple(map(str, tasks))))

    def step(self) -> None:
        """What the loop does before a turn."""
        membership = self.conductor._begin()
        assert membership is not None
        if not self.conductor._opened:
            self.conductor._open(membership)
        elif membership is not self.conductor.tasks.adopted:
            self.conductor._adopt(membership)
        self.conductor._idle.set()


@pytest.fixture
def instance() -> Instance:
    found = Instance()
    found.assigned(1, A, B, C)
    found.step()
    assert sorted(found.conductor.owners) == [A, B, C]
    found.fleet.opened.clear()
    found.positions.read.clear()
    return found


def test_should_leave_everything_alone_when_nothing_changes(instance: Instance) -> None:
    instance.assigned(2, A, B, C)
    instance.step()
    assert not instance.fleet.opened
    assert not instance.positions.read


def test_should_close_what_others_have_and_read_only_what_is_new(instance: Instance) -> None:
    instance.assigned(2, A, B, D)
    instance.step()
    assert instance.fleet.opened == [[A, B], [A, B, D]]
    assert instance.positions.read == [[D]]
    assert instance.positions.tasks == {A, B, D}


def test_should_open_anew_what_was_somebody_elses_in_between(instance: Instance) -> None:
    instance.assigned(2, A, B)
    instance.assigned(3, A, B, C)
    instance.step()
    assert instance.fleet.opened == [[A, B], [A, B, C]]
    assert instance.positions.read == [[C]]


def test_should_open_anew_what_was_somebody_elses_while_its_offsets_were_read() -> None:
    """Given, taken and given back before it is open: the other one's commits came after the reading."""
    found = Instance()
    read = found.positions.load

    def read_while_the_group_moves_on(tasks: Iterable[TaskId]) -> None:
        read(tasks)
        if len(found.positions.read) == 1:
            found.assigned(2, A, B)
            found.assigned(3, A, B, C)

    found.positions.load = read_while_the_group_moves_on  # type: ignore[method-assign]
    found.assigned(1, A, B, C)
    found.step()
    found.step()
    assert found.positions.read == [[A, B, C], [C]]
    assert found.fleet.opened[-2:] == [[A, B], [A, B, C]]


def test_should_open_anew_what_was_read_for_a_generation_that_had_passed(instance: Instance) -> None:
    """The group goes on twice before a generation is adopted; what is read under it is old again when it comes back."""
    instance.assigned(2, A, B)
    membership = instance.conductor._begin()
    assert membership is not None
    instance.assigned(3, A, C)  # B is somebody else's
    instance.conductor._adopt(membership)
    instance.assigned(4, A, B, C)
    instance.step()
    assert instance.positions.read[-1] == [B, C]


def test_should_read_again_from_the_commit_what_a_new_worker_has_opened(instance: Instance) -> None:
    """A worker may have ended unnoticed since the last turn, with all that waited in it."""
    forgotten: list[TaskId] = []
    instance.positions.forget_fetched = forgotten.append  # type: ignore[attr-defined]
    instance.fleet.begun = (A, B, C)
    instance.conductor.tasks.open_lanes(instance.conductor.tasks.in_lanes(instance.conductor.owners))
    assert forgotten == [A, B, C]


def test_should_pause_for_a_moment_while_the_group_joins_under_exactly_once(instance: Instance) -> None:
    instance.conductor._idle.clear()  # a turn runs
    stopped = instance.conductor.revoked()
    assert not stopped.is_set()
    instance.conductor._idle.set()
    assert stopped.is_set()
    assert instance.conductor._begin() is None
    instance.assigned(2, A, B, C)
    instance.step()
    assert not instance.fleet.opened


def test_should_go_on_where_the_group_takes_long_to_join_under_exactly_once(instance: Instance) -> None:
    time = iter([0.0, 0.1, 9.0, 9.0])
    instance.conductor._hold = Hold(instance.conductor._idle, lambda: next(time))
    instance.conductor._idle.clear()  # a turn runs, and takes long
    stopped = instance.conductor.revoked()
    assert not stopped.is_set()
    assert stopped.is_set()
    assert instance.conductor._begin() is not None


def test_should_wait_for_the_turn_and_start_none_under_at_least_once() -> None:
    instance = Instance("at_least_once")
    instance.assigned(1, A, B)
    instance.step()
    instance.conductor._idle.clear()  # a turn runs
    stopped = instance.conductor.revoked()
    assert not stopped.is_set()
    instance.conductor._idle.set()
    assert stopped.is_set()
    assert instance.conductor._begin() is None
    instance.fleet.opened.clear()
    instance.assigned(2, A, B)
    instance.step()
    assert not instance.fleet.opened  # what stays was not closed


def test_should_read_everything_anew_after_the_group_went_on_without_it(instance: Instance) -> None:
    instance.conductor.revoked(lost=True)
    assert instance.conductor.holdings()[0] == ()  # it claims nothing any more
    instance.assigned(5, A, B, C)
    instance.step()
    assert instance.positions.read == [[A, B, C]]


def test_should_not_take_for_opened_what_was_lost_meanwhile(instance: Instance) -> None:
    instance.conductor._opened = False
    opened = instance.fleet.open

    def lose(owned: Any, seconds: float = 2.0) -> Any:
        threading.Thread(target=lambda: instance.conductor.revoked(lost=True)).run()
        return opened(owned)

    instance.fleet.open = lose  # type: ignore[method-assign]
    instance.step()
    assert not instance.conductor._opened


def test_should_tell_the_group_what_it_runs(instance: Instance) -> None:
    assert instance.conductor.holdings() == (("0_0", "0_1", "0_2"), (), {})


def test_should_ask_the_group_to_look_again_once_in_a_generation(instance: Instance) -> None:
    asked: list[int] = []
    instance.conductor.member = SimpleNamespace(  # type: ignore[assignment]
        is_leader=True, request_rejoin=lambda: asked.append(1), failure=None
    )
    instance.conductor._probe()
    assert not asked  # nothing waits
    instance.conductor.assigned(Membership(2, b"", ("0_0",), probing=True))
    instance.conductor._probe_at = 0.0  # long ago
    instance.conductor._housekeeping()
    instance.conductor._housekeeping()
    assert asked == [1]
