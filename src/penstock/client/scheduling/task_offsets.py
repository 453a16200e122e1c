"""The start offsets of tasks: the group's committed offsets, or the reset policy's if there are no valid ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from penstock.clock import Clock
from penstock.errors import StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.messages import TaskStart
from penstock.spark.plan import Plan
from penstock.spark.staged_history import Staged, history_rows, is_set
from penstock.topology.builder import InternalTopologyBuilder
from penstock.topology.offset_reset import AutoOffsetReset

_log = logging.getLogger(__name__)

ReadCommitted = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, OffsetAndMetadata]]


class TaskOffsets:
    """Reads offsets from Kafka in the background. With `committed_only`, records of open transactions do not count."""

    def __init__(
        self,
        plan: Plan,
        group: str,
        admin: Admin,
        committed: ReadCommitted,
        builder: InternalTopologyBuilder,
        default_reset: str,
        clock: Clock,
        *,
        committed_only: bool,
        staged: Staged | None = None,
    ) -> None:
        self.plan, self.admin, self.read_committed = plan, admin, committed
        self._group, self._builder, self._default_reset = group, builder, default_reset
        self._clock, self._committed_only = clock, committed_only
        self.staged: Staged = staged or {}
        """The history that is read before some partitions; where their topics take over is fixed."""
        self._acknowledged: dict[TopicPartition, int] = {}
        """This instance's own commits for partitions that were given up or are read again."""

    def read(self, tasks: Iterable[TaskId]) -> dict[TaskId, TaskStart]:
        """Return the committed offsets of tasks, and the offsets from which their partitions are read.

        A committed offset outside its log counts as missing: the reset policy decides.
        """
        tasks = list(tasks)
        inputs = {task: self.plan.inputs(task) for task in tasks}
        partitions = [partition for some in inputs.values() for partition in some]
        committed = dict(self.read_committed(partitions)) if partitions else {}
        committed = {p: some for p, some in committed.items() if not (p in self.staged and is_set(some))}
        self._check_histories(committed)
        self._warn_of_forgotten(partitions, committed)
        self._fit(committed)
        missing = [partition for partition in partitions if partition not in committed]
        begins = self.starts([partition for partition in missing if partition not in self.staged])
        begins |= {partition: self.staged[partition].end for partition in missing if partition in self.staged}
        begins |= {partition: some.offset for partition, some in committed.items()}
        return {
            task: TaskStart({p: committed[p] for p in some if p in committed}, {p: begins[p] for p in some})
            for task, some in inputs.items()
        }

    def _check_histories(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, some in committed.items():
            if partition not in self.staged and history_rows(some) is not None:
                raise StreamsError(
                    f"the history of {partition} is not read to its end, and its source has none any more: give it the history "
                    "again, or reset the application (penstock reset)"
                )

    def note_given_up(self, committed: Mapping[TopicPartition, OffsetAndMetadata], loaded: Mapping[TopicPartition, int]) -> None:
        """Keep this instance's commits of a task that is given up."""
        # Without a commit since it was loaded, the offset may be the reset policy's.
        self._acknowledged.update({p: some.offset for p, some in committed.items() if some.offset > loaded.get(p, some.offset)})

    def _warn_of_forgotten(
        self, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Warn of lost commits. As in any consumer nothing else is done, but the log explains duplicate results."""
        for partition in partitions:
            known, had = committed.get(partition), self._acknowledged.pop(partition, None)
            if had is not None and (known is None or known.offset < had):
                _log.warning(
                    "%s: this instance committed offset %d, but the brokers return %s: they lost it, or another program "
                    "moved it back or recreated the topic. Records since then are processed again",
                    *(partition, had, "none" if known is None else known.offset),
                )

    def _fit(self, committed: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Check committed offsets against their logs. The reset policy replaces those outside.

        A position in history is not checked: the topic is checked when it takes over.
        """
        lost = {}
        asked = [partition for partition, some in committed.items() if history_rows(some) is None]
        for partition, log in self.admin.log_bounds(asked, False, reachable=True).items() if asked else ():
            reason = log.misfit(committed[partition].offset)
            if reason is not None:
                lost[partition] = f"offset {committed[partition].offset} is committed for {partition}, but {reason}"
        for partition, start in self.starts(lost, lost).items():
            _log.warning("%s; it is read from offset %d", lost[partition], start)
            times = committed[partition].metadata.partition("|")[0]
            committed[partition] = OffsetAndMetadata(start, times)

    def starts(
        self, partitions: Iterable[TopicPartition], reasons: Mapping[TopicPartition, str] | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the reset policies. `reasons` explain why committed offsets are invalid."""
        by_policy: dict[AutoOffsetReset, list[TopicPartition]] = {}
        for partition in partitions:
            by_policy.setdefault(self._policy(partition.topic), []).append(partition)
        found: dict[TopicPartition, int] = {}
        for policy, asked in by_policy.items():
            found |= self._start(policy, asked, reasons or {})
        return found

    def _policy(self, topic: str) -> AutoOffsetReset:
        if topic in self.plan.repartition_topics:
            return AutoOffsetReset.earliest()  # the application's own records are never skipped
        return self._builder.offset_reset_strategy(topic, self._group) or _default(self._default_reset)

    def _start(
        self, policy: AutoOffsetReset, asked: list[TopicPartition], reasons: Mapping[TopicPartition, str]
    ) -> Mapping[TopicPartition, int]:
        if policy == AutoOffsetReset.earliest():
            return self.admin.log_starts(asked)
        if policy == AutoOffsetReset.latest():
            # An open transaction may still commit. Its records come after the last stable offset.
            return self.admin.log_ends(asked, self._committed_only)
        if policy == AutoOffsetReset.none():
            nothing = [partition for partition in asked if partition not in reasons]
            told = [reasons[partition] for partition in asked if partition in reasons]
            if nothing:
                told.append(f"no offset is committed for {', '.join(map(str, nothing))}")
            raise StreamsError(
                f"No start offset is known, and the offset reset policy is none: {'; '.join(told)}. Commit offsets for "
                f"the group {self._group}, or choose earliest or latest."
            )
        since = self._clock.now_ms() - (policy.duration_ms or 0)
        return self.admin.offsets_at(asked, since, self._committed_only)


def _default(text: str) -> AutoOffsetReset:
    return {"earliest": AutoOffsetReset.earliest(), "latest": AutoOffsetReset.latest()}.get(text, AutoOffsetReset.none())
