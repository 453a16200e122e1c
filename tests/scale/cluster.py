"""The brokers of the fleet: logs that only have ends, committed offsets, and leaders that can be away or have a bad record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.log_bounds import LogBounds
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.plan import Plan
from tests.unit.client.simulated import Brokers

SUBTOPOLOGIES = 3


def make_plan(partitions: int) -> Plan:
    """Sub-topologies that each read a topic and have one store with a changelog."""
    builder = SimpleNamespace(build=lambda: SimpleNamespace(persistent=True))

    def subtopology(number: int) -> Any:
        return SimpleNamespace(
            id=number,
            source_topics=(f"input-{number}",),
            repartition_source_topics={},
            sink_topics=(),
            store_to_changelog={"store": f"app-store-{number}-changelog"},
            stores={"store": builder},
        )

    topics = [name for n in range(SUBTOPOLOGIES) for name in (f"input-{n}", f"app-store-{n}-changelog")]
    return Plan({n: subtopology(n) for n in range(SUBTOPOLOGIES)}, dict.fromkeys(topics, partitions))


class Cluster(Brokers):
    """Kafka as all instances see it."""

    def __init__(self, plan: Plan, state: int) -> None:
        super().__init__(plan)
        self._changelogs = {
            partition: changelog
            for task in plan.tasks()
            for partition in plan.inputs(task)
            for changelog in plan.changelogs(task)
        }
        self.ends.update(dict.fromkeys(self._changelogs.values(), state))
        self._begun = dict(self.ends)
        self._poison: set[TopicPartition] = set()
        self.requests = 0
        self.generation = 0
        self.read_to: dict[TopicPartition, int] = {}
        """How far each partition was consumed in batches that were committed."""
        self.repeated = self.lost = 0

    def poison(self, partition: TopicPartition) -> None:
        """The next record of this partition fails its task, until it is cured."""
        self._poison.add(partition)

    def cure(self) -> None:
        self._poison.clear()

    def is_poisoned(self, partition: TopicPartition, at: int) -> bool:
        return partition in self._poison and self.ends[partition] > at

    def begin_batch(self) -> None:
        """Nothing is to be done for it."""

    def consume(self, partition: TopicPartition, offsets: range) -> None:
        """A task has read these offsets, and has written as many records to its changelog."""
        reached = self.read_to.get(partition, 0)
        self.repeated += max(0, reached - offsets.start)
        self.lost += max(0, offsets.start - reached)
        self.read_to[partition] = offsets.stop
        self.ends[self._changelogs[partition]] += len(offsets)

    def produce(self, partitions: Iterable[TopicPartition]) -> None:
        """One record more in each; those whose leader is away get none."""
        self.ends.update(p for p in partitions if p not in self.away)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask(self, partitions: Iterable[TopicPartition]) -> None:
        self.requests += 1
        if self.away and not self.away.isdisjoint(partitions):
            raise BrokerError("a broker is away")

    def log_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        asked = list(partitions)
        self._ask(asked)
        return super().log_ends(asked, committed_only)

    def reachable_ends(self, partitions: Iterable[TopicPartition], committed_only: bool) -> dict[TopicPartition, int]:
        self.requests += 1
        return super().reachable_ends(partitions, committed_only)

    def log_bounds(self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False) -> Any:
        asked = [p for p in partitions if not reachable or p not in self.away]
        self._ask(asked)
        return {p: LogBounds(0, self.ends[p], self.ends[p]) for p in asked}

    def read_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        self.requests += 1
        return super().read_committed(partitions)

    def max_message_bytes(self, topic: str) -> int | None:
        return None

    def racks(self, topics: Iterable[str]) -> Mapping[TopicPartition, frozenset[str]]:
        return {}
