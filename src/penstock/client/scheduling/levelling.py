"""Before the end: bring all tasks behind a shuffle to the same position of each source.

Each task behind a shuffle has a position of its own in every source, and goes on from it. Whoever knows nothing of that, an
application in Java that takes over or a lag tool, looks at the one offset that is committed for the source. So an instance that
is closed feeds the tasks that are behind the others until they are where those are, reads nothing else, and commits that offset
last.

    source 0  ──────●━━━━━►│            a task behind the front is fed up to it
    source 0  ────────────●│            the front as it was when the end began: no further
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from penstock.client.scheduling.lane_loop import LaneLoop, LaneState, runs_turns
from penstock.client.scheduling.owned_tasks import OwnedTasks
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.run_state import RunState
from penstock.client.scheduling.stages import Stage
from penstock.ids import TopicPartition

_log = logging.getLogger(__name__)

# So long tasks behind a shuffle may be brought to the same position before the end.
_SECONDS = 15.0


class Levelling:
    """How far each source is read before the end: where the task that was furthest ahead is, or is about to be."""

    def __init__(self, positions: Positions, lanes: Iterable[LaneLoop], deadline: float) -> None:
        self.deadline = deadline
        self._front = {source: positions.highest(source) for vector in positions.vectors.values() for source in vector}
        for lane in lanes:
            turn = None if lane.job is None else lane.job.turn
            for source, end in ({} if turn is None else turn.read).items():
                self._front[source] = max(end, self._front.get(source, end))
        for lane in lanes:
            while lane.parts and not self.wants(lane.parts[-1].stage):
                lane.parts.pop()

    def wants(self, stage: Stage) -> bool:
        """Whether what a stage has read is still needed: what nobody has begun is left for the next start."""
        return all(end <= self._front.get(source, end) for source, end in stage.read.items())

    def ends(self, positions: Positions, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where logs end as far as they are still read: sources before a shuffle at the front, others where they are."""
        return {p: min(end, self._front[p] if p in self._front else positions.fetched.get(p, end)) for p, end in ends.items()}


class EndLevel:
    """Goes on until tasks behind a shuffle are level, as long as nothing is in the way of it; used by the conductor's thread."""

    def __init__(self, tasks: OwnedTasks, run: RunState) -> None:
        self._tasks, self._run = tasks, run
        self._levelling: Levelling | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the instance is about to end."""
        return self._levelling is not None

    def wants(self, stage: Stage) -> bool:
        """Whether what a stage has read is still needed."""
        return self._levelling is None or self._levelling.wants(stage)

    def ends(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where logs end as far as they are still read."""
        return ends if self._levelling is None else self._levelling.ends(self._tasks.positions, ends)

    def look(self) -> None:
        """See whether all are level, or cannot be brought there; the first look begins it."""
        lanes, positions, now = list(self._tasks.lanes.values()), self._tasks.positions, time.monotonic()
        if self._levelling is None:
            self._levelling = Levelling(positions, lanes, now + _SECONDS)
        uneven = positions.uneven()
        is_healing = any(lane.state is LaneState.HEALING for lane in lanes)
        cannot = now > self._levelling.deadline or not self._run.may_work or is_healing
        self._run.is_level = cannot or not positions.vectors or not (uneven or runs_turns(lanes))
        if self._run.is_level and uneven:
            _log.warning(
                "the application ends while tasks behind a shuffle are at different positions of %s: it goes on from each of "
                "them; an application in Java would not: before one takes over, start this one again and close it while it runs",
                ", ".join(map(str, sorted(uneven))),
            )
