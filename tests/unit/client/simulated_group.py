"""Several simulated instances over the same brokers, in a group that is played too: who hears of a generation when, who dies."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any

from penstock.client.assignment.group_assignment import GroupAssignor
from penstock.config.streams_config import StreamsConfig
from penstock.errors import TaskMigratedError
from penstock.ids import TopicPartition
from penstock.kafka.membership import MemberInfo, Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata
from tests.unit.client.simulated import Brokers, World, make_plan


class Member:
    """An instance as the group knows it; also what its conductor has for a member."""

    failure = None

    def __init__(self, group: Group, name: str, world: World, transport: str) -> None:
        self._group, self.name, self.world, self.transport = group, name, world, transport
        self.is_leader = False
        self.heard: deque[tuple[Membership, bool]] = deque()
        """Generations that it has not heard of yet, and whether it leads them."""
        settings = StreamsConfig({"application.id": "app", "bootstrap.servers": "b:1"})
        brokers: Any = world.brokers
        self.assign = GroupAssignor(settings, brokers, lambda: world.plan, world.conductor.transports)
        world.conductor.member = self  # type: ignore[assignment]

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, generation: int, whole: bool = False) -> None:
        brokers = self.world.brokers
        if generation != brokers.generation or self not in self._group.members:
            raise TaskMigratedError("an old generation")
        brokers.committed.update(offsets)
        if whole:
            self._group.left += 1
            self._group.on_left(self)

    def request_rejoin(self) -> None:
        self._group.is_asked = True

    def info(self) -> MemberInfo:
        return MemberInfo(self.name, 1, "", *self.world.conductor.holdings(), transport=self.transport)

    def hear(self) -> None:
        membership, self.is_leader = self.heard.popleft()
        self.world.conductor.assigned(membership)


class Group:
    """The application's instances."""

    def __init__(self, clock: list[float], guarantee: str = "exactly_once_v2", **settings: Any) -> None:
        self.clock, self._guarantee = clock, guarantee
        self._settings = {"repartition.transport.delay.ms": 0, **settings}
        self.plan = make_plan(3, 4, 2)
        self.brokers = Brokers(self.plan)
        self.brokers.generation = 0
        self.members: list[Member] = []
        self.is_asked = False
        self.left = 0
        """How often the shuffle was left."""
        self.on_left: Any = lambda member: None
        self._count = 0

    def join(self, lanes: int = 2, transport: str = "auto", spread: str = "auto") -> Member:
        """One more instance; it is there from the next generation on."""
        self._count += 1
        settings = {**self._settings, "task.spread": spread}
        world = World(self.clock, lanes=lanes, guarantee=self._guarantee, plan=self.plan, brokers=self.brokers, **settings)
        world.on_failure = lambda error, lane: True
        member = Member(self, f"m{self._count}", world, transport)
        self.members.append(member)
        return member

    def die(self, member: Member) -> None:
        """It is gone, with all that it had under way; the group hears of it with its next generation."""
        self.members.remove(member)

    def rebalance(self, leader: Member | None = None) -> None:
        """A new generation: from now on nobody commits under the old one, and each hears of it when it hears of it."""
        self.is_asked = False
        if not self.members:
            return
        if self._guarantee != "exactly_once_v2":
            stopped = [member.world.conductor.revoked() for member in self.members]
            for _ in range(200):
                if all(one.is_set() for one in stopped):
                    break
                self.round()
            assert all(one.is_set() for one in stopped)
        else:
            for member in self.members:
                member.world.conductor.revoked()
        leader = leader or self.members[0]
        assert self.brokers.generation is not None
        self.brokers.generation += 1
        shares = leader.assign([member.info() for member in self.members])
        owners = {unit: name for name, units in shares.active.items() for unit in units}
        for member in self.members:
            membership = Membership(
                self.brokers.generation,
                str(self.brokers.generation).encode(),
                tuple(shares.active[member.name]),
                owners,
                dict.fromkeys((one.name for one in self.members), ""),
                shuffled=shares.shuffled,
            )
            member.heard.append((membership, member is leader))

    def hear(self) -> None:
        """All hear of all."""
        for member in self.members:
            while member.heard:
                member.hear()

    def round(self) -> None:
        """Let everything that was begun go well, once."""
        self.clock[0] += 0.05
        for member in list(self.members):
            world = member.world
            world.step()
            for job in world.jobs():
                world.lane_jobs.finish(job)
            world.do_beside()
            while world.lane_jobs.stages:
                world.run_stage()

    def settle(self, rounds: int = 300) -> None:
        """The same again and again; the group is asked anew where somebody wants that."""
        self.hear()
        for _ in range(rounds):
            if self.is_asked:
                self.rebalance()
                self.hear()
            self.round()

    def shake(self, chance: random.Random, steps: int, failures: float = 0.05) -> None:
        """Whatever can happen in instances happens, in any order, and they hear of generations whenever they do."""
        for _ in range(steps):
            if not self.members:
                return
            member = chance.choice(self.members)
            if member.heard and chance.random() < 0.1:
                member.hear()
            member.world.shake(chance, 1, failures=failures)

    def ways(self) -> set[tuple[int, ...]]:
        """Which sub-topologies are shuffled, as the members see it."""
        return {tuple(sorted(set(member.world.conductor.tasks.plan.shuffled.values()))) for member in self.members}

    def tasks(self) -> dict[str, list[str]]:
        """The tasks that each member runs."""
        return {
            member.name: sorted(str(task) for worker in member.world.lane_jobs.workers.values() for task in worker.running)
            for member in self.members
        }
