"""How far the application has read: positions of the partitions tasks read themselves, vectors of those a shuffle feeds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy as shallow_copy
from typing import Any

from penstock.client.scheduling.log_ends import Ends
from penstock.client.scheduling.moved_offsets import followed, followed_commits, moved_offsets
from penstock.clock import Clock
from penstock.errors import BrokerError, StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.log_bounds import LogBounds
from penstock.runtime.carry_over import OffsetAndMetadata, is_anothers, logs_of, own_offset, with_logs, with_own_offset
from penstock.spark.plan import Plan
from penstock.spark.vectors import Vector, distinct, is_vector
from penstock.spark.worker.shuffled_before import ShuffledBefore, committed_with_had
from penstock.spark.worker.upstream import sources_of
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.offset_reset import AutoOffsetReset

_log = logging.getLogger(__name__)

Committed = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, OffsetAndMetadata]]


class OffsetOutOfRangeError(BrokerError):
    """Positions that are not in their logs (any more): they are loaded anew, and the reset policy decides."""


class Positions:
    """Where each task goes on: what is committed in Kafka, and how far ahead of it has been fetched."""

    def __init__(
        self,
        plan: Plan,
        group: str,
        admin: Admin,
        committed: Committed,
        builder: InternalTopologyBuilder,
        default_reset: str,
        clock: Clock,
        *,
        committed_only: bool,
    ) -> None:
        self._plan = plan
        self._group = group
        self._admin = admin
        self._builder = builder
        self._default_reset = default_reset
        self._clock = clock
        self._committed_only = committed_only
        self._read_committed = committed
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.fetched: dict[TopicPartition, int] = {}
        self.vectors: dict[TopicPartition, dict[TopicPartition, int]] = {}
        self.draining: dict[TopicPartition, int] = {}
        """Where repartition topics end that were written to before there was a shuffle: it begins when they are read."""
        self._loaded: dict[TopicPartition, int] = {}
        self._loaded_vectors: dict[TopicPartition, dict[TopicPartition, int]] = {}
        self._carried: dict[TopicPartition, dict[TopicPartition, int]] = {}
        """Partitions that go on where the commits of their sources say, with how many records of which offset they have had."""
        self._acknowledged: dict[TopicPartition, int] = {}
        """What was committed here of the partitions that were given away or are loaded anew."""

    def go_by(self, plan: Plan) -> None:
        """Go on with another way of repartitions; the tasks that this concerns have been dropped."""
        self._plan = plan

    def load(self, tasks: Iterable[TaskId]) -> None:
        """Read from Kafka what the group has committed; where there is nothing, the reset policy decides."""
        self._remember(self.committed)
        for known in self._all_known():
            known.clear()
        self.add(tasks)

    def add(self, tasks: Iterable[TaskId]) -> None:
        """The same for tasks that come in addition; where the others are stays as it is.

        What is committed but not in its log (any more) counts as not committed: the reset policy decides, as where a
        consumer's offset is out of range.
        """
        own = [p for task in tasks for p in self.inputs(task)]
        shuffled = [p for p in own if p.topic in self._plan.shuffled]
        self.committed.update(self._read_committed(own))
        self.committed.update(self._without_old_vectors({p: self.committed[p] for p in shuffled if p in self.committed}))
        self.draining |= self._left_in_topics([p for p in shuffled if not is_vector(self.committed.get(p))])
        direct = [p for p in own if p.topic not in self._plan.shuffled or p in self.draining]
        self._say_what_was_forgotten(direct)
        self._fit_own(direct)
        starts = self._starts([p for p in direct if p not in self.committed])
        fed = [p for p in shuffled if p not in self.draining]
        for partition in fed:
            self.vectors[partition] = self._vector(partition)
        self._fit_vectors(fed)
        for partition in fed:
            self._loaded_vectors[partition] = dict(self.vectors[partition])
        for partition in direct:
            known = self.committed.get(partition)
            self.fetched[partition] = self._loaded[partition] = starts[partition] if known is None else known.offset

    def copy(self) -> Positions:
        """What is known now, to be added to while others go on with this one; `take` brings it back."""
        copied = shallow_copy(self)
        copied.committed, copied.fetched, copied.draining = dict(self.committed), dict(self.fetched), dict(self.draining)
        copied.vectors = {partition: dict(vector) for partition, vector in self.vectors.items()}
        copied._loaded, copied._loaded_vectors, copied._carried = (
            dict(self._loaded),
            dict(self._loaded_vectors),
            dict(self._carried),
        )
        return copied

    def take(self, other: Positions, tasks: Iterable[TaskId]) -> None:
        """Take over from a copy where these tasks are."""
        for partition in [p for task in tasks for p in self.inputs(task)]:
            for mine, theirs in zip(self._all_known(), other._all_known()):
                if partition in theirs:
                    mine[partition] = theirs[partition]
                else:
                    mine.pop(partition, None)

    def furthest(self) -> dict[TopicPartition, int]:
        """How far each partition is read; before a shuffle, for the task that is furthest ahead."""
        found = dict(self.fetched)
        for vector in distinct(self.vectors.values()):
            for partition, position in vector.items():
                found[partition] = max(position, found.get(partition, position))
        return found

    def out_of_range(self, told: Ends) -> dict[TopicPartition, OffsetOutOfRangeError]:
        """The partitions whose logs ended before what had been read of them: they were made anew, or records were lost.

        What was read since the question counts for nothing, nor does what is read anew from an earlier offset.
        """
        now = self.furthest() if told.short_of else {}
        at = {p: min(told.asked[p], now[p]) for p in told.short_of if p in now}
        return {
            p: OffsetOutOfRangeError(f"offsets are out of range: {p} ends at {told.short_of[p]} and was read up to {position}")
            for p, position in at.items()
            if told.short_of[p] < position
        }

    def sources_of(self, task_id: TaskId) -> list[TopicPartition]:
        """The partitions that are read for a task: its own, and those before a shuffle that feeds it."""
        inputs = self.inputs(task_id)
        own = [partition for partition in inputs if partition in self.fetched]
        return [*own, *(source for partition in inputs for source in self.vectors.get(partition, ()))]

    def start(self, partition: TopicPartition) -> int:
        """Where a partition is read on: before a shuffle, where the task furthest behind is."""
        fetched = self.fetched.get(partition)
        return self.lowest(partition) if fetched is None else fetched

    def reads(self, task_id: TaskId, partition: TopicPartition) -> bool:
        """Whether a partition is an input of a task, or comes before the shuffle that feeds it."""
        return any(p == partition or partition in self.vectors.get(p, ()) for p in self.inputs(task_id))

    def fed(self, task_id: TaskId) -> list[TopicPartition]:
        """The partitions of a task that a shuffle feeds."""
        return [partition for partition in self.inputs(task_id) if partition in self.vectors]

    def drop(self, tasks: Iterable[TaskId]) -> None:
        """Others have these tasks now."""
        given = [p for task in tasks for p in self.inputs(task)]
        self._remember(given)
        for partition in given:
            for known in self._all_known():
                known.pop(partition, None)

    def _remember(self, partitions: Iterable[TopicPartition]) -> None:
        own = [p for p in partitions if p in self.committed and p in self._loaded]
        # Where nothing was committed since it was loaded, it may be where the reset policy has put it.
        self._acknowledged.update((p, self.committed[p].offset) for p in own if self.committed[p].offset > self._loaded[p])

    def _say_what_was_forgotten(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits may be gone: nothing is done about it, as in any consumer, but whoever finds results twice should find why."""
        for partition in partitions:
            known, had = self.committed.get(partition), self._acknowledged.pop(partition, None)
            if had is not None and (known is None or known.offset < had):
                _log.warning(
                    "%s: this instance has committed offset %d, and the brokers tell %s: they have forgotten it, or somebody has "
                    "moved it back or made the topic anew. What was committed since then is processed again",
                    *(partition, had, "none" if known is None else known.offset),
                )

    def _all_known(self) -> tuple[dict[TopicPartition, Any], ...]:
        return self.committed, self.fetched, self.vectors, self.draining, self._loaded, self._loaded_vectors, self._carried

    def _without_old_vectors(
        self, committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed behind a shuffle, without vectors from before somebody else went on with the sources.

        The offset that is committed for a source is that of the task furthest behind, so no vector is before it. One that is
        belongs to a partition for which an application in Java, which has read on, had nothing to commit; or a tool has moved the
        offset, which `moved_offsets.py` follows; or brokers have taken back the vectors of a transaction that they had called
        committed, and what was shown of it is only shown.
        """
        kept: dict[TopicPartition, OffsetAndMetadata] = {}
        read_to: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, some in committed.items():
            sources = self._sources_before(partition.topic) if is_vector(some) else []
            if sources and not read_to.keys() >= set(sources):
                read_to.update(self._read_committed(sources))
            at = Vector.of(some, sources).positions
            passed = [source for source, to in read_to.items() if source in at and to.offset > at[source]]
            if any(own_offset(read_to[source]) is None and not is_anothers(read_to[source]) for source in passed):
                some = OffsetAndMetadata(some.offset, some.metadata.partition("|")[0])
            kept[partition] = some
        return kept

    def _sources_before(self, repartition: str) -> list[TopicPartition]:
        upstream = next((s for s in self._plan.subtopologies.values() if repartition in self._plan.repartitions_of(s)), None)
        return [] if upstream is None else sources_of(self._plan, upstream.id)

    def _left_in_topics(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where those of these repartition partitions end that have records which nobody has read."""
        if not partitions:
            return {}
        # When what is committed for the sources is decided, all that was written with it is in the topics: a transaction has its
        # offsets before the last of its records have arrived.
        self._read_committed({s for p in partitions for s in sources_of(self._plan, self._plan.shuffled[p.topic])})
        starts, ends = self._admin.log_starts(partitions), self._admin.log_ends(partitions, False)
        at = {p: max(starts[p], self.committed[p].offset if p in self.committed else 0) for p in partitions}
        return {p: ends[p] for p in partitions if at[p] < ends[p]}

    @property
    def is_drained(self) -> bool:
        """Whether all that was left in repartition topics has been consumed, so that the shuffle can begin."""
        return bool(self.draining) and all(
            p in self.committed and self.committed[p].offset >= end for p, end in self.draining.items()
        )

    def leaving_shuffle(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit before repartitions that went through the shuffle go through their topics; empty where none did.

        The sources are read on from the lowest position any task had, with what the others had (`had.py`); the tasks read their
        topic from its end, since nothing was written there.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        behind: dict[int, list[TopicPartition]] = {}
        for upstream in self._plan.subtopologies.values():
            topics = [t for t in self._plan.repartitions_of(upstream) if t not in self._plan.shuffled]
            behind[upstream.id] = [TopicPartition(topic, p) for topic in topics for p in range(self._plan.partitions[topic])]
        asked = dict.fromkeys(target for targets in behind.values() for target in targets)
        committed = self._without_old_vectors(self._read_committed(asked)) if asked else {}
        for upstream_id, targets in behind.items():
            if any(is_vector(committed.get(target)) for target in targets):
                known = {target: committed[target] for target in targets if target in committed}
                found |= self._left_shuffle(sources_of(self._plan, upstream_id), targets, known)
        return found

    def _left_shuffle(
        self,
        sources: list[TopicPartition],
        targets: list[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        read_to = self._read_committed(sources)
        vectors = {target: _completed(Vector.of(committed.get(target), sources), target, read_to)[0] for target in targets}
        moved = moved_offsets(read_to)
        vectors = {target: followed(vector, moved) for target, vector in vectors.items()}
        known = {source: some.offset for source, some in read_to.items()}
        known |= self._starts([source for source in sources if source not in known])
        ends = self._admin.log_ends(targets, False)
        times = {target: committed[target].metadata.split("|")[0] for target in targets if target in committed}
        return {
            **{source: committed_with_had(source, vectors, targets, known[source]) for source in sources},
            **{target: OffsetAndMetadata(ends[target], times.get(target, "")) for target in targets},
        }

    def following_moves(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit before anything is read for a shuffle where others have committed for its sources (`moved_offsets.py`).

        Vectors that follow, and the sources with a mark; empty where all is as the application has left it. Where repartitions
        go through their topics now and may be shuffled later, only the mark: whoever leaves the shuffle follows by himself.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for upstream in self._plan.subtopologies.values():
            topics = self._plan.repartitions_of(upstream)
            is_shuffled = upstream.id in self._plan.upstream
            if not topics or (not is_shuffled and any(topic in self._plan.reasons for topic in topics)):
                continue
            sources = sources_of(self._plan, upstream.id)
            read_to = self._read_committed(sources)
            moved, nothing = moved_offsets(read_to), [source for source in sources if source not in read_to]
            if moved or (nothing and is_shuffled):
                targets = [TopicPartition(topic, p) for topic in topics for p in range(self._plan.partitions[topic])]
                committed = self._read_committed(targets)
                marks = {source: with_own_offset(read_to[source]) for source in moved}
                if is_shuffled:
                    self._miss(nothing, {s for some in committed.values() for s in Vector.of(some, sources).positions})
                    ends = self._admin.log_ends(targets, False) if moved else {}
                    found |= {**marks, **followed_commits(committed, sources, moved, ends)}
                elif not any(is_vector(some) for some in committed.values()):
                    found |= marks
        return found

    def _miss(self, nothing: Iterable[TopicPartition], known: Collection[TopicPartition]) -> None:
        """Say so where an offset may have been deleted: that there is none is also what a crash in the first second leaves."""
        if missing := [str(source) for source in nothing if source in known]:
            _log.warning(
                "no offset is committed for %s; the tasks behind its shuffle know where they were and go on from there. "
                "`penstock reset` has the application %s start over",
                *(", ".join(missing), self._group),
            )

    def inputs(self, task_id: TaskId) -> list[TopicPartition]:
        """The partitions a task reads or is fed."""
        topics = self._plan.subtopologies[task_id.subtopology].source_topics
        return [TopicPartition(t, task_id.partition) for t in topics if task_id.partition < self._plan.partitions[t]]

    def of_task(self, task_id: TaskId) -> dict[TopicPartition, OffsetAndMetadata]:
        """What is committed for a task; for what a shuffle feeds always a vector of all sources, also before the first commit."""
        found = {p: self.committed[p] for p in self.inputs(task_id) if p in self.committed}
        for partition in self.inputs(task_id):
            if partition in self.vectors:
                found[partition] = self._whole_vector(partition, found.get(partition, OffsetAndMetadata(0)))
        return found

    def _whole_vector(self, partition: TopicPartition, committed: OffsetAndMetadata) -> OffsetAndMetadata:
        """What is committed for a partition that a shuffle feeds, with sources it does not name where they are read from."""
        sources = sources_of(self._plan, self._plan.shuffled[partition.topic])
        own = Vector.of(committed, sources)
        if len(own.positions) == len(sources):
            return committed
        times = committed.metadata.partition("|")[0]
        number = own.number if is_vector(committed) else committed.offset
        return self._consumed(partition)._replace(number=number).committed(times, sources, committed.offset)

    def forget_fetched(self, task_id: TaskId) -> None:
        """A task was closed: what it had fetched and not committed is read again."""
        for partition in self.inputs(task_id):
            committed = self.committed.get(partition)
            if partition in self.vectors:
                self.vectors[partition] = dict(self._consumed(partition).positions)
            else:
                self.fetched[partition] = self._loaded[partition] if committed is None else committed.offset

    def committed_sum(self, partition: TopicPartition) -> int:
        """How far a partition is committed, -1 where it is not; behind a shuffle the sum over what feeds it."""
        found = self.committed.get(partition)
        if found is None:
            return -1
        if partition not in self.vectors:
            return found.offset
        return sum(Vector.of(found, sources_of(self._plan, self._plan.shuffled[partition.topic])).positions.values())

    def end_sum(self, partition: TopicPartition, ends: Mapping[TopicPartition, int]) -> int:
        """Where a partition ends, -1 where that is not known; behind a shuffle the sum over what feeds it."""
        sources = self.vectors.get(partition, {partition: 0})
        return sum(ends[source] for source in sources) if all(source in ends for source in sources) else -1

    def sources(self) -> list[TopicPartition]:
        """All partitions to be read: tasks' own, and those before a shuffle."""
        return [*self.fetched, *dict.fromkeys(source for vector in distinct(self.vectors.values()) for source in vector)]

    def lowest(self, source: TopicPartition) -> int:
        """The position of a partition before a shuffle: that of the task furthest behind."""
        return min(vector[source] for vector in self.vectors.values() if source in vector)

    def uneven(self) -> set[TopicPartition]:
        """The partitions before a shuffle of which not all tasks behind it have consumed equally much."""
        found: dict[TopicPartition, set[str]] = {}
        for partition in self.vectors:
            consumed = self._consumed(partition)
            for source in consumed.positions:
                found.setdefault(source, set()).add(consumed.position(source))
        return {source for source, positions in found.items() if len(positions) > 1 or "+" in next(iter(positions))}

    def _consumed(self, partition: TopicPartition) -> Vector:
        """How far a partition that a shuffle feeds has consumed its sources, by its last commit; it may have read further."""
        loaded, carried = self._loaded_vectors[partition], self._carried.get(partition, {})
        own = Vector.of(self.committed.get(partition), list(loaded))
        begun = {**{source: some for source, some in carried.items() if source not in own.positions}, **own.begun}
        return Vector(own.number, {**loaded, **own.positions}, begun)

    def shown(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit for partitions before a shuffle: how far all tasks behind it have consumed them.

        Lag tools see the application by it, and an application in Java goes on from it. Nothing while something is left in
        repartition topics, or while what is committed for the sources says where a task goes on that has committed nothing of
        its own since.
        """
        if self.draining or not all(is_vector(self.committed.get(partition)) for partition in self._carried):
            return {}
        lowest: dict[TopicPartition, int] = {}
        known = {topic: self._knows_all(topic) for topic in {target.topic for target in self.vectors}}
        for target in self.vectors:
            for source, at in self._consumed(target).positions.items() if known[target.topic] else ():
                lowest[source] = min(at, lowest.get(source, at))
        return {source: with_own_offset(OffsetAndMetadata(at)) for source, at in lowest.items()}

    def _knows_all(self, topic: str) -> bool:
        """Whether it is known where all are that the same sources feed: one that has no vector yet starts where these are."""
        shuffled, upstream = self._plan.shuffled, self._plan.shuffled[topic]
        return all(
            TopicPartition(t, p) in self.vectors
            for t, fed_by in shuffled.items()
            if fed_by == upstream
            for p in range(self._plan.partitions[t])
        )

    def highest(self, source: TopicPartition) -> int:
        """How far a partition before a shuffle has been read: the position of the task furthest ahead."""
        return max(vector[source] for vector in self.vectors.values() if source in vector)

    def _fit_own(self, partitions: Iterable[TopicPartition]) -> None:
        known = [p for p in partitions if p in self.committed]
        lost = {}
        for partition, log in self._admin.log_bounds(known, False, reachable=True).items():
            reason = log.misfit(self.committed[partition].offset)
            if reason is not None:
                lost[partition] = f"offset {self.committed[partition].offset} is committed for {partition}, but {reason}"
        for partition, start in self._starts(lost, lost).items():
            _log.warning("%s; it is read from offset %d on", lost[partition], start)
            self.committed[partition] = self.committed[partition]._replace(offset=start)

    def _fit_vectors(self, partitions: Iterable[TopicPartition]) -> None:
        """Compare vectors with the logs of their sources, and note with what is committed which logs these are."""
        vectors = {p: self.vectors[p] for p in partitions}
        sources = list(dict.fromkeys(source for vector in vectors.values() for source in vector))
        logs = self._admin.log_bounds(sources, False, reachable=True)
        reasons: dict[TopicPartition, str] = {}
        moved: dict[TopicPartition, list[TopicPartition]] = {}
        known = {p: logs_of(self.committed[p]) if p in self.committed else {} for p in vectors}
        for source, log in logs.items():
            for partition, vector in vectors.items():
                if source in vector:
                    reason = self._misfit(source, log, vector[source], known[partition].get(source.topic, 0))
                    if reason is not None:
                        reasons.setdefault(
                            source, f"{source} was read up to offset {vector[source]} for {partition}, but {reason}"
                        )
                        moved.setdefault(partition, []).append(source)
        starts = self._starts(reasons, reasons)
        for source, start in starts.items():
            _log.warning("%s; it is read from offset %d on", reasons[source], start)
        for partition, vector in vectors.items():
            for source in moved.get(partition, ()):
                vector[source] = starts[source]
                self._carried.get(partition, {}).pop(source, None)
            ids = {source.topic: logs[source].topic_id for source in vector if source in logs and logs[source].topic_id}
            self._correct(partition, moved.get(partition, ()), {**known[partition], **ids})

    def _misfit(self, source: TopicPartition, log: LogBounds, position: int, topic_id: int) -> str | None:
        reason = log.misfit(position, topic_id)
        if reason is None and not topic_id:
            # Where nothing tells which log it was, what does not fit another task is taken for true of all.
            return log.misfit(max(position, self.highest(source)))
        return reason

    def _correct(self, partition: TopicPartition, moved: Iterable[TopicPartition], ids: Mapping[str, int]) -> None:
        """Let what is committed say what is true now: a lane that opens the task goes on from it."""
        committed, gone = self.committed.get(partition), set(moved)
        sources = sources_of(self._plan, self._plan.shuffled[partition.topic])
        vector = Vector.of(committed, sources)
        if committed is None or not vector.positions:
            return
        if gone:
            begun = {source: some for source, some in vector.begun.items() if source not in gone}
            times = committed.metadata.partition("|")[0]
            positions = {**vector.positions, **{source: self.vectors[partition][source] for source in gone}}
            committed = Vector(vector.number, positions, begun).committed(times, sources, committed.offset)
        self.committed[partition] = with_logs(committed, ids)

    def _vector(self, partition: TopicPartition) -> dict[TopicPartition, int]:
        sources = sources_of(self._plan, self._plan.shuffled[partition.topic])
        own = Vector.of(self.committed.get(partition), sources)
        known = dict(own.positions)
        missing = [source for source in sources if source not in known]
        if missing:
            # Not the task's own, but never ahead of it: the lowest of all tasks, or what a reset of the application has set.
            completed, carried = _completed(own, partition, self._read_committed(missing))
            if carried:
                self._carried[partition] = {s: some for s, some in completed.begun.items() if s in missing}
            known |= completed.positions
            known |= self._starts([source for source in missing if source not in known])
        return known

    def _starts(
        self, partitions: Iterable[TopicPartition], reasons: Mapping[TopicPartition, str] | None = None
    ) -> dict[TopicPartition, int]:
        """Where the reset policies have partitions read from; `reasons` tell why what was committed for them does not count."""
        by_policy: dict[AutoOffsetReset, list[TopicPartition]] = {}
        for partition in partitions:
            by_policy.setdefault(self._policy(partition.topic), []).append(partition)
        found: dict[TopicPartition, int] = {}
        for policy, asked in by_policy.items():
            found |= self._start(policy, asked, reasons or {})
        return found

    def _policy(self, topic: str) -> AutoOffsetReset:
        if any(topic in s.repartition_source_topics for s in self._plan.subtopologies.values()):
            return AutoOffsetReset.earliest()  # what the application wrote for itself is never skipped
        return self._builder.offset_reset_strategy(topic, self._group) or _default(self._default_reset)

    def _start(
        self, policy: AutoOffsetReset, asked: list[TopicPartition], reasons: Mapping[TopicPartition, str]
    ) -> Mapping[TopicPartition, int]:
        if policy == AutoOffsetReset.earliest():
            return self._admin.log_starts(asked)
        if policy == AutoOffsetReset.latest():
            # An open transaction may still be committed. Its records come after the last stable offset.
            return self._admin.log_ends(asked, self._committed_only)
        if policy == AutoOffsetReset.none():
            nothing = [partition for partition in asked if partition not in reasons]
            told = [reasons[partition] for partition in asked if partition in reasons]
            if nothing:
                told.append(f"no offset is committed for {', '.join(map(str, nothing))}")
            raise StreamsError(
                f"Where to read from is not known, and the offset reset policy is none: {'; '.join(told)}. Commit offsets for "
                f"the group {self._group}, or choose earliest or latest."
            )
        since = self._clock.now_ms() - (policy.duration_ms or 0)
        return self._admin.offsets_at(asked, since, self._committed_only)


def _completed(own: Vector, target: TopicPartition, read_to: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[Vector, bool]:
    """A task's vector, with sources it has no position in as their own commits have them; whether one carries what it had."""
    positions, begun, carried = dict(own.positions), dict(own.begun), False
    for source, committed in read_to.items():
        if source not in positions:
            had = ShuffledBefore.of(committed)
            positions[source], some = (committed.offset, 0) if had is None else had.position(target, committed.offset)
            carried = carried or had is not None
            if some:
                begun[source] = some
    return Vector(own.number, positions, begun), carried


def _default(text: str) -> AutoOffsetReset:
    return {"earliest": AutoOffsetReset.earliest(), "latest": AutoOffsetReset.latest()}.get(text, AutoOffsetReset.none())
