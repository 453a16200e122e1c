"""One start after an upgrade: turn the offset vectors of earlier releases into offsets.

Earlier releases sent repartitions through Spark's shuffle. A task behind a repartition committed a vector: how far it had
consumed each source partition (`spark/vectors.py`). Now each source partition has one offset, and the repartition topic has
another. So the leader of the group commits, once and before anybody works:

- for each source, the lowest position of all tasks behind the repartition, with a table of what each of them had beyond it.
  The task that reads the source leaves out what a task behind the repartition had, until it has read past all of it
  (`spark/worker/vector_upgrade.py`);
- for each repartition partition the end of its topic: nothing was written there.

The other members wait until no vector is left. If somebody has moved the committed offset of a source, the vectors follow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial

from penstock.client.scheduling.assignments import Assignments
from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.errors import BrokerError
from penstock.ids import TopicPartition
from penstock.kafka.group_client import GroupClient
from penstock.kafka.membership import Membership
from penstock.runtime.offset_metadata import OffsetAndMetadata, is_anothers, own_offset
from penstock.spark.plan import Plan
from penstock.spark.vectors import Vector, is_vector
from penstock.spark.worker.vector_upgrade import ShuffledBefore, committed_with_had

_log = logging.getLogger(__name__)

# So long the leader of the group is waited for.
_LEADER_SECONDS = 10.0


def upgraded_offsets(offsets: TaskOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit in place of vectors; empty if there are none."""
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
    """The source partitions of a sub-topology, in the order of its vectors."""
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
    """The vector of a task; none if an application in Java has read on since.

    The committed offset of a source is that of the task furthest behind. A vector before it was committed before Java ran.
    """
    vector = Vector.of(committed, sources)
    passed = [source for source, at in vector.positions.items() if source in read_to and read_to[source].offset > at]
    if any(own_offset(read_to[source]) is None and not is_anothers(read_to[source]) for source in passed):
        return Vector(0, {})
    return vector


def _completed(own: Vector, target: TopicPartition, read_to: Mapping[TopicPartition, OffsetAndMetadata]) -> Vector:
    """A vector, with the sources it has no position in as their own commits have them."""
    positions, begun = dict(own.positions), dict(own.begun)
    for source, committed in read_to.items():
        if source not in positions:
            had = ShuffledBefore.of(committed)
            positions[source], some = (committed.offset, 0) if had is None else had.position(target, committed.offset)
            if some:
                begun[source] = some
    return Vector(own.number, positions, begun)


def _followed(vector: Vector, moved: Mapping[TopicPartition, int]) -> Vector:
    """A vector that has followed offsets which somebody else has committed for its sources."""
    changed = {source: at for source, at in moved.items() if source in vector.positions}
    begun = {source: some for source, some in vector.begun.items() if source not in changed}
    return Vector(vector.number, {**vector.positions, **changed}, begun)


def upgrade(member: GroupClient, offsets: TaskOffsets, generation: int) -> bool:
    """Commit offsets in place of vectors, if this member leads the group; whether no vector is left."""
    changed = upgraded_offsets(offsets)
    if not changed:
        return True
    if not member.is_leader:
        return False
    _log.info("offsets of an earlier release are converted: repartitions go through their topics from now on")
    try:
        member.commit(changed, whole=True, generation=generation)
    except BrokerError:
        # It may still be taken after others have gone on from what they found: in another generation it is refused.
        member.request_rejoin()
        raise
    return True


class VectorUpgrade:
    """Waits, in the first generation of an instance, until no vector is left; used by the event loop's thread."""

    def __init__(self, assignments: Assignments, background: Background) -> None:
        self._assignments, self._background = assignments, background
        self._is_done = False
        self._since, self._rests_until = 0.0, 0.0

    def look_again(self) -> None:
        """There is another plan."""
        self._is_done = False

    def is_done(self, membership: Membership, offsets: TaskOffsets) -> bool:
        """Whether offsets can be read; if that is not known yet, it is looked for in the background."""
        member = self._assignments.member
        if self._is_done or member is None:
            return True
        if time.monotonic() >= self._rests_until:
            work = partial(upgrade, member, offsets, membership.generation)
            self._background.do("vector upgrade", work, self._looked)
        return False

    def _looked(self, done: bool) -> None:
        now = time.monotonic()
        self._is_done = done
        if done:
            return
        self._since = self._since or now
        waited = now - self._since
        self._rests_until = now + min(1.0, 0.05 + waited / 10)
        if waited > _LEADER_SECONDS:
            # A static member that was restarted does not lead its old generation any more: nobody does.
            self._since = now
            _log.warning("the leader of the group has not converted offsets for %.0f s: the group is asked to rebalance", waited)
            self._assignments.request_rejoin()
