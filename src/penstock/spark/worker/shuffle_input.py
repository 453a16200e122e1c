"""What a shuffle feeds to one partition of a task: what was handed over, and what of it has been consumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.columns.columns import ProducedColumns
from penstock.ids import TopicPartition
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.batch import ShuffledBatch
from penstock.spark.vectors import Vector


class ShuffleInput:
    """Numbers the records of a repartition partition that goes through the shuffle, and keeps the task's vector.

    A task may leave records waiting (`max.task.idle.ms`): they stay in its queue, and the vector that is committed points
    at the first of each source that waits.

    What rides along to be written waits too, until a commit passes the record it was made of. Whoever goes on from a commit
    reads all records behind its vector again, and makes what rides along with them again; so what was written with a commit
    must be what was made of the records before its vector: nothing else, and all of it.
    """

    def __init__(self, sources: Sequence[TopicPartition], committed: OffsetAndMetadata | None) -> None:
        self._sources = self.sources = sources
        self.committed = Vector.of(committed, sources)
        """How far each source was consumed when the task last committed, or was opened."""
        self._handed_over = self.committed
        self._times = committed.metadata.split("|")[0] if committed is not None else ""
        self._topic_read_to = committed.offset if committed is not None else 0
        self._waiting: list[ShuffledBatch] = []
        self._riding: list[ShuffledBatch] = []

    @property
    def number(self) -> int:
        """The number of the next record to be handed over."""
        return self._handed_over.number

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """How far each source has been handed over."""
        return self._handed_over.positions

    def take(self, batch: ShuffledBatch | None, ends: Mapping[TopicPartition, int]) -> ShuffledBatch:
        """The records to hand to the task now, merged by time; `ends` is how far the sources have been read with them."""
        sources, before = self._sources, self._handed_over
        if batch is None:
            batch = ShuffledBatch.of_rows(())
        else:
            batch, riding = batch.without_side()
            if riding is not None:
                self._riding.append(riding)
            begun = {s: (before.positions[s], some) for s, some in before.begun.items()}
            batch = batch.in_time_order({index: begun[s] for index, s in enumerate(sources) if s in begun})
        self._waiting.append(batch)
        still_begun = {source: some for source, some in before.begun.items() if ends.get(source, 0) <= before.positions[source]}
        self._handed_over = Vector(before.number + len(batch), {**before.positions, **ends}, still_begun)
        return batch

    def commit(self, left: int, times: str | None) -> OffsetAndMetadata:
        """What to commit while `left` records wait in the task's queue; without `times` those of the last commit stay."""
        if times is not None:
            self._times = times
        handed_over = self._handed_over
        if not left:
            self._waiting = []
            self.committed = handed_over
        else:
            handed = ShuffledBatch.concat(self._waiting)
            cut = len(handed) - left
            self._waiting = [handed.slice(cut, len(handed))]
            origins = [(self._sources[s], o) for s, o in zip(handed.sources.tolist(), handed.offsets.tolist())]
            done = origins[:cut]
            first = dict(reversed(origins[cut:]))  # the first that waits of each source
            positions = {**handed_over.positions, **first}
            self.committed = Vector(handed_over.number - left, positions, {**handed_over.begun, **self._begun(done, first)})
        return self.committed.committed(self._times, self._sources, self._topic_read_to)

    def take_side_outputs(self) -> list[ProducedColumns]:
        """What rode along with records before the vector that is committed now, to be written with it; each once."""
        if not self._riding:
            return []
        riding, positions = ShuffledBatch.concat(self._riding), self.committed.positions
        passed = riding.offsets < np.array([positions.get(source, 0) for source in self._sources], np.int64)[riding.sources]
        self._riding = [] if passed.all() else [riding.take(np.flatnonzero(~passed))]
        return riding.take(np.flatnonzero(passed)).side_outputs()

    def _begun(
        self, done: Sequence[tuple[TopicPartition, int]], first: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """How many of the records made of the first waiting offset were consumed, in this turn and in those before it."""
        before = self.committed
        found = {s: before.begun.get(s, 0) if before.positions.get(s) == offset else 0 for s, offset in first.items()}
        for source, offset in done:
            if first.get(source) == offset:
                found[source] += 1
        return found
