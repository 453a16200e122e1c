"""An application whose brokers are lists: plan, positions, stage and lanes are the real ones, and run turn by turn."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock import StreamsConfig, TaskId, TopicPartition
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.stages import catch_up_window, front_window
from penstock.client.scheduling.turns import account, plan_turn
from penstock.clock import SystemClock
from penstock.columns.columns import RawColumns, records_of
from penstock.kafka.fetch import FetchRange
from penstock.log_bounds import LogBounds
from penstock.record import Headers, ProducedRecord, RawRecord
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.blobs import batch_blob, counts_blob, read_blobs
from penstock.spark.messages import Application, LaneAnswer, UpstreamWork
from penstock.spark.plan import make_plan
from penstock.spark.worker.lane_tasks import LaneTasks
from penstock.spark.worker.upstream import side_target
from tests.harness.waiting import LIMIT

APPLICATION = "app"


class Logs:
    """Topics as lists, seen as the clients of a lane and of the driver see them."""

    def __init__(self) -> None:
        self.records: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)

    def append(self, topic: str, partition: int, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
        log = self.records[TopicPartition(topic, partition)]
        log.append(RawRecord(topic, partition, len(log), timestamp, key, value, headers))

    def write(self, record: ProducedRecord) -> None:
        topic, partition, *rest = record
        self.append(topic, partition or 0, *rest)

    # as a fetcher

    def fetch(self, ranges: Sequence[FetchRange], headers: bool = True) -> dict[TopicPartition, RawColumns]:
        found = {TopicPartition(r.topic, r.partition): r for r in ranges}
        return {p: RawColumns.of(p.topic, p.partition, self.records[p][r.start : r.end]) for p, r in found.items()}

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        return 0, len(self.records[partition])

    def expect(self, next_range: FetchRange) -> None: ...

    def rest(self) -> None: ...

    def serve(self) -> None: ...

    def close(self) -> None: ...

    # as a producer

    def end_of(self, partition: TopicPartition) -> int:
        return len(self.records[partition])

    # as an administrator

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def log_ends(self, partitions: Iterable[TopicPartition], committed: bool = True) -> dict[TopicPartition, int]:
        return {partition: len(self.records[partition]) for partition in partitions}

    def log_bounds(
        self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False
    ) -> dict[TopicPartition, LogBounds]:
        return {p: LogBounds(0, end, end, topic_id=1) for p, end in self.log_ends(partitions).items()}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)


class World:
    """One instance; every task has a lane of its own."""

    def __init__(self, topology: Any, folder: Path, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        self.logs = Logs()
        self.config = StreamsConfig(
            {"application.id": APPLICATION, "bootstrap.servers": "localhost:9", "state.dir": str(folder), **(config or {})}
        )
        builder = topology.internal_topology_builder
        builder.rewrite_topology(self.config)
        subtopologies = builder.subtopologies(APPLICATION, {})
        topics = {t for s in subtopologies for t in (*s.source_topics, *s.changelog_topics, *s.sink_topics)}
        self.plan = make_plan(subtopologies, dict.fromkeys(topics, partitions), self.config)
        assert self.plan.shuffled, "these tests are about what crosses the shuffle"
        self._application = Application("key", self.config, self.plan, None, "process", "client")
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.processed: Counter[TaskId] = Counter()
        """How many records each task has processed, those before the shuffle too."""
        admin: Any = self.logs
        self.positions = Positions(
            self.plan, APPLICATION, admin, self._read_committed, builder, "earliest", SystemClock(), committed_only=True
        )
        self.lanes: dict[TaskId, LaneTasks] = {}
        self._stage = self._lane()
        self.start()

    def start(self) -> None:
        """Open everything from the last commit, as after a stop or a failure."""
        for lane in self.lanes.values():
            lane.close()
        self.positions.load(self.plan.tasks())
        self.lanes = {task: self._lane() for task in self.plan.tasks()}
        for task in self.lanes:
            self._open(task)

    def move(self, task: TaskId) -> None:
        """Close a task in its lane, and open it in another."""
        self.lanes[task].close()
        self.positions.forget_fetched(task)
        self.lanes[task] = self._lane()
        self._open(task)

    def _run_stage(self, upstream: Iterable[UpstreamWork], fed: Collection[TopicPartition]) -> Iterator[bytes]:
        for work in upstream:
            batches, consumed = self._stage.upstream([work])
            yield from (batch_blob(target, batch) for target, batch in batches.items() if target in fed)
            counts = self._stage.take_counts(TaskId(work.subtopology, work.partition), consumed, 0.5)
            if side_target(self.plan, work) in fed:
                yield counts_blob(counts)

    def turn(self, up_to: Mapping[str, int] = MappingProxyType({}), max_records: int = 1_000_000) -> bool:
        """One turn, in which some topics are fetched only up to an offset; False where there is nothing to do.

        Tasks that are behind the others are fed first.
        """
        ends, vectors = self.logs.log_ends(self.positions.sources()), self.positions.vectors
        known = {p: min(end, up_to.get(p.topic, end)) for p, end in ends.items()}
        due = [task for task in self.lanes if self.lanes[task].running[task].task.has_records_queued]
        feeds = {task: fed for task in self.lanes if (fed := self.positions.fed(task))}
        window = catch_up_window(feeds, vectors, known, max_records) or front_window(feeds, vectors, known)
        turn = plan_turn(self.plan, self.positions, known, list(self.lanes), due, lambda _: max_records, window=window)
        if turn is None:
            return False
        received = read_blobs(self._run_stage(turn.upstream, [p for work in turn.work.values() for p in work.fed]))
        fed = received.batches
        for counts in received.counts:
            self.processed[counts.task] += counts.processed
            next(iter(self.lanes.values())).add_counts(counts)
        answer = LaneAnswer("here")
        for task, task_work in turn.work.items():
            lane = self.lanes[task]
            lane.fetch({task: task_work})
            fetched = {**self.positions.fetched, **{TopicPartition(r.topic, r.partition): r.end for r in task_work.ranges}}
            lags = {p: ends[p] - fetched[p] for p in self.positions.inputs(task) if p in fetched}
            commit, processed = lane.process(task, replace(task_work, lags=lags), fed, turn.read)
            self.processed[task] += processed
            for record in records_of((*commit.outputs, *commit.changelogs)):
                self.logs.write(record)
            self.committed.update(commit.offsets)
            answer.offsets.update(commit.offsets)
            lane.post_commit(task, self.logs)  # type: ignore[arg-type]
        account(self.positions, turn, answer)
        return True

    def values(self, topic: str) -> list[bytes | None]:
        """What was written to a topic."""
        return [
            record.value for partition, log in sorted(self.logs.records.items()) if partition.topic == topic for record in log
        ]

    def _lane(self) -> LaneTasks:
        lane = LaneTasks(self._application, "client")
        lane._fetcher = lane._restorer._fetcher = lane._admin_client = self.logs  # type: ignore[assignment]
        return lane

    def _open(self, task: TaskId) -> None:
        self.lanes[task].own({task: self.positions.of_task(task)})
        self.lanes[task].restore(time.monotonic() + LIMIT, LaneAnswer("here"))
        assert task in self.lanes[task].running

    def _read_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {p: self.committed[p] for p in partitions if p in self.committed}
