"""Reads repartition topics to their ends before an instance stops, so that a Java application can take over.

Java cannot read the blocks that stream threads write. The close of the last member of a group therefore has rounds:

1. All threads end their residencies, as in any close. After that nothing writes to repartition topics.
2. Ask the brokers for the ends of these topics. If everything up to them is committed, the instance stops without a further
Spark job.
3. Threads with unread partitions read them, and no source topic. They may write to the next repartition topic: continue with
2.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future

from penstock.client.scheduling.event_queue import Background
from penstock.client.scheduling.run_state import RunPhase, RunState
from penstock.client.scheduling.task_manager import TaskManager
from penstock.clock import monotonic
from penstock.config.streams_config import StreamsConfig
from penstock.ids import TopicPartition
from penstock.kafka.admin import Admin

_log = logging.getLogger(__name__)

# Gives up after this number of rounds without a commit: records may wait for a source topic.
_MOST_IDLE_ROUNDS = 2
# A punctuator may write to a repartition topic in every round.
_MOST_ROUNDS = 100


class Draining:
    """Drains repartition topics. Used by the event loop's thread."""

    def __init__(self, config: StreamsConfig, tasks: TaskManager, admin: Admin, run: RunState, background: Background) -> None:
        self._tasks, self._admin, self._run, self._background = tasks, admin, run, background
        self._writes_blocks = config["repartition.format"] == "blocks"
        self._deadline: float | None = None
        self._asking: Future[dict[TopicPartition, int]] | None = None
        self._unread: Mapping[TopicPartition, int] = {}
        """Partitions that may be unread, with the next offset."""
        self._rounds = self._idle_rounds = 0

    @property
    def is_needed(self) -> bool:
        """True if a running instance may leave blocks in repartition topics when it stops."""
        return self._writes_blocks and bool(self._tasks.plan.repartition_topics) and self._run.told_running

    def begin(self, seconds: float | None) -> None:
        """Start draining, for at most `seconds`. Initially all repartition partitions count as unread."""
        self._deadline = None if seconds is None else monotonic() + seconds
        self._unread = self._next_offsets()

    def look(self, *, shares_work: bool) -> None:
        """Begin the next round after the last one, or stop the instance."""
        threads = self._tasks.threads.values()
        if shares_work:
            self._stop({})  # the other members read them
        elif not self._run.may_process or not self._tasks.are_running:
            self._stop(self._unread)  # a thread failed, or the group rebalances
        elif self._deadline is not None and monotonic() >= self._deadline:
            self._stop(self._unread)
        elif self._asking is None and not any(thread.job is not None or thread.has_unread for thread in threads):
            self._asking = self._background.submit(self._admin.reachable_ends, list(self._next_offsets()), False)
            self._background.then(self._asking, self._answered)

    def _next_offsets(self) -> dict[TopicPartition, int]:
        topics = self._tasks.plan.repartition_topics
        return {p: offset for p, offset in self._tasks.next_offsets().items() if p.topic in topics}

    def _answered(self, future: Future[dict[TopicPartition, int]]) -> None:
        if not self._run.is_draining:
            return
        self._asking = None
        try:
            ends = future.result(0)
        except Exception as exc:  # noqa: BLE001 - the instance stops after any error
            _log.warning("Reading the ends of the repartition topics failed: %s", exc)
            self._stop(self._unread)
            return
        unread = {partition: at for partition, at in self._next_offsets().items() if ends.get(partition) != at}
        self._idle_rounds = self._idle_rounds + 1 if self._rounds and unread == self._unread else 0
        self._unread = unread
        if not unread or self._idle_rounds == _MOST_IDLE_ROUNDS or self._rounds == _MOST_ROUNDS:
            self._stop(unread)
            return
        self._rounds += 1
        for thread in self._tasks.threads.values():
            inputs = {partition for task in thread.holds for partition in self._tasks.plan.inputs(task)}
            thread.has_unread = not inputs.isdisjoint(unread)

    def _stop(self, unread: Mapping[TopicPartition, int]) -> None:
        self._unread = unread
        self._run.become(RunPhase.STOPPING)

    def tell_unread(self) -> None:
        """Log the topics that remain unread at the end of the instance."""
        if self._unread:
            _log.warning(
                "Closed before repartition topics were read to their ends: %s may have unread blocks, which Java cannot read. "
                "Before a Java application takes over, start this one again with repartition.format = records and close it when "
                "these topics are read",
                ", ".join(sorted({partition.topic for partition in self._unread})),
            )
