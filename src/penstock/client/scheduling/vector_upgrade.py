"""Converts the offset vectors of earlier releases to offsets at the first start after an upgrade.

Earlier releases sent repartitions through Spark's shuffle. A task behind a repartition committed a vector: its position in
each source partition (`spark/vectors.py`). Now each source partition and each repartition partition has one offset. The
leader of the group commits once, before any processing:
- for each source, the lowest position of all tasks behind the repartition, with a table of each task's further position. The
task that reads the source skips records that a task behind the repartition has consumed (`spark/worker/vector_upgrade.py`);
- for each repartition partition, the end of its topic, because nothing was written there.

Other members wait until no vector is left. If somebody has moved a source's committed offset, the vectors follow it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.clock import monotonic
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.group_client import GroupClient
from penstock.kafka.membership import Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata, is_anothers, own_offset
from penstock.spark.plan import Plan
from penstock.spark.vectors import Vector, is_vector
from penstock.spark.worker.vector_upgrade import ShuffledBefore, committed_with_had

_log = logging.getLogger(__name__)

# Limit of waiting for the leader of the group.
_LEADER_SECONDS = 10.0


def upgraded_offsets(offsets: TaskOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that replace vectors; empty without vectors."""
    plan, found = offsets.plan, dict[TopicPartition, OffsetAndMetadata]()
    targets = {
        s.id: [TopicPartition(topic, p) for topic in plan.repartitions_of(s) for p in range(plan.partitions[topic])]
        for s in plan.subtopologies.values()
    }
    asked = dict.fromkeys(target for some in targets.values() for target in some)
    committed = offsets.read_committed(asked) if asked else {}
    for subtopology, behind in targets.items():
        sources = _sources(plan, subtopology)
        if any(is_vector(committed.get(target)) for target in behind):
            found |= _upgraded(offsets, sources, behind, {t: committed[t] for t in behind if t in committed})
    return found


def _sources(plan: Plan, subtopology: int) -> list[TopicPartition]:
    """Return the source partitions of a sub-topology in the order of its vectors."""
    topics = sorted(plan.subtopologies[subtopology].source_topics)
    return [TopicPartition(topic, partition) for topic in topics for partition in range(plan.partitions[topic])]


def _upgraded(
    offsets: TaskOffsets,
    sources: list[TopicPartition],
    targets: list[TopicPartition],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    read_to = offsets.read_committed(sources)
    moved = {source: some.offset for source, some in read_to.items() if is_anothers(some)}
    vectors = {t: _followed(_completed(_believed(committed.get(t), sources, read_to), t, read_to), moved) for t in targets}
    known = {source: some.offset for source, some in read_to.items()}
    known |= offsets.starts([source for source in sources if source not in known])
    ends = offsets.admin.log_ends(targets, False)
    times = {target: committed[target].metadata.split("|")[0] for target in targets if target in committed}
    return {
        **{source: committed_with_had(source, vectors, targets, known[source]) for source in sources},
        **{target: OffsetAndMetadata(ends[target], times.get(target, "")) for target in targets},
    }


def _believed(
    committed: OffsetAndMetadata | None, sources: list[TopicPartition], read_to: Mapping[TopicPartition, OffsetAndMetadata]
) -> Vector:
    """Return the vector of a task, or an empty one if a Java application has read on since.

    The committed offset of a source is the lowest of all tasks. A vector below it was committed before Java ran.
    """
    vector = Vector.of(committed, sources)
    passed = [source for source, at in vector.positions.items() if source in read_to and read_to[source].offset > at]
    if any(own_offset(read_to[source]) is None and not is_anothers(read_to[source]) for source in passed):
        return Vector(0, {})
    return vector


def _completed(own: Vector, target: TopicPartition, read_to: Mapping[TopicPartition, OffsetAndMetadata]) -> Vector:
    """Complete a vector with the positions in the sources' own commits."""
    positions, begun = dict(own.positions), dict(own.begun)
    for source, committed in read_to.items():
        if source not in positions:
            had = ShuffledBefore.of(committed)
            positions[source], some = (committed.offset, 0) if had is None else had.position(target, committed.offset)
            if some:
                begun[source] = some
    return Vector(own.number, positions, begun)


def _followed(vector: Vector, moved: Mapping[TopicPartition, int]) -> Vector:
    """Move a vector's positions to offsets that somebody else has committed for its sources."""
    changed = {source: at for source, at in moved.items() if source in vector.positions}
    begun = {source: some for source, some in vector.begun.items() if source not in changed}
    return Vector(vector.number, {**vector.positions, **changed}, begun)


def upgrade(member: GroupClient, offsets: TaskOffsets, generation: int) -> bool:
    """Replace vectors by offsets if this member leads the group. Returns True if no vector is left."""
    changed = upgraded_offsets(offsets)
    if not changed:
        return True
    if not member.is_leader:
        return False
    _log.info("Offsets of an earlier release are converted. Repartitions now use their topics")
    try:
        member.commit(changed, whole=True, generation=generation)
    except BrokerError:
        # The commit may still take effect after others have continued. In another generation it would be refused.
        member.request_rejoin()
        raise
    return True


class VectorUpgrade:
    """Waits in the first generation until no vector is left. Used by the event loop's thread."""

    def __init__(self, assignments: Assignments, background: Background) -> None:
        self._assignments, self._background = assignments, background
        self._is_done = False
        self._since, self._rests_until = 0.0, 0.0

    def look_again(self) -> None:
        """Check again, for another plan."""
        self._is_done = False

    def is_done(self, membership: Membership, offsets: TaskOffsets) -> bool:
        """Return True if offsets can be read. Otherwise the check runs in the background."""
        member = self._assignments.member
        if self._is_done or member is None:
            return True
        if monotonic() >= self._rests_until:
            work = partial(upgrade, member, offsets, membership.generation)
            self._background.do("vector upgrade", work, self._looked)
        return False

    def _looked(self, done: bool) -> None:
        now = monotonic()
        self._is_done = done
        if done:
            return
        self._since = self._since or now
        waited = now - self._since
        self._rests_until = now + min(1.0, 0.05 + waited / 10)
        if waited > _LEADER_SECONDS:
            # A restarted static member does not lead its old generation: nobody does.
            self._since = now
            _log.warning("The leader of the group has not converted offsets for %.0f s. Requesting a rebalance", waited)
            self._assignments.request_rejoin()
