"""Applications that die at a named step of a turn, over brokers whose transactions are as real as lists can make them.

Plan, positions, the accounting of a turn, lanes, tasks and stores are the real ones. Brokers, producers and the group are not:
records and offsets of a transaction can be read when it has committed; what a dying lane leaves open hides what comes behind it
until its producer is opened again or it times out, and then stays in the log, where it takes offsets and is never read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from penstock import StreamsConfig, TaskId, TopicPartition
from penstock.client.scheduling.positions import Positions
from penstock.client.scheduling.shuffle_exit import leave_shuffle
from penstock.client.scheduling.stages import StagePart, catch_up_window, front_window, plan_stage
from penstock.client.scheduling.turns import Turn, account, plan_turn
from penstock.clock import SystemClock
from penstock.columns.columns import RawColumns, records_of
from penstock.errors import TaskMigratedError
from penstock.hashing import default_partition
from penstock.kafka.fetch import FetchRange
from penstock.log_bounds import LogBounds
from penstock.record import Headers, RawRecord
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.spark.blobs import batch_blob, read_blobs
from penstock.spark.messages import Application, LaneAnswer, ProcessTurn
from penstock.spark.plan import make_plan
from penstock.spark.vectors import is_vector
from penstock.spark.worker.current_work import CurrentWork
from penstock.spark.worker.lane_tasks import LaneTasks
from penstock.spark.worker.lane_worker import LaneWorker

APPLICATION = "app"
LANES = (0, 1)
_EVERYTHING = 1_000_000


class Step(str, Enum):
    """Where in a turn a lane or its driver dies: right after this."""

    BEGUN = "begun"
    """Fetched and processed; the transaction is begun, nothing is written."""
    PRODUCED_IN_PART = "produced in part"
    PRODUCED = "produced"
    OFFSETS_SENT = "offsets sent"
    COMMITTED = "committed"
    STORE_WRITTEN_IN_PART = "store written in part"
    """The stores of the first task of the lane."""
    STORE_WRITTEN = "store written"
    ACCOUNTED = "accounted"


class Crash(BaseException):
    """The end of a process: nothing that would have come next is done."""


@dataclass
class Transaction:
    """Is committed, aborted, or still open."""

    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    partitions: set[TopicPartition] = field(default_factory=set)
    outcome: bool | None = None


class Brokers:
    """Logs, committed offsets, open transactions, and the generation of the group; also the administrator and the fetcher."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.partitions = partitions
        self.logs: defaultdict[TopicPartition, list[tuple[RawRecord | None, Transaction | None]]] = defaultdict(list)
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.open: dict[str, Transaction] = {}
        self.loses_markers = False
        """Whether transactions are said to be committed without their markers being written, as Kafka 4.3 may (KAFKA-20734)."""
        self._unmarked: list[Transaction] = []
        self.generation = 1
        self.on_fetch: Callable[[], None] = lambda: None

    # as those see it who write

    def append(
        self, topic: str, partition: int, key: Any, value: Any, timestamp: int, headers: Headers = (), *, of: Any = None
    ) -> int:
        """Write a record, and tell its offset."""
        log = self.logs[TopicPartition(topic, partition)]
        log.append((RawRecord(topic, partition, len(log), timestamp, key, value, headers), of))
        return len(log) - 1

    def end_transaction(self, transactional_id: str, *, commit: bool) -> None:
        """A marker in every log, and the offsets with it."""
        transaction = self.open.pop(transactional_id, None)
        if transaction is not None and commit and self.loses_markers:
            self._unmarked.append(transaction)
        elif transaction is not None:
            self._end(transaction, commit)

    def _end(self, transaction: Transaction, commit: bool) -> None:
        transaction.outcome = commit
        for partition in transaction.partitions:
            self.logs[partition].append((None, None))
        if commit:
            self.offsets |= transaction.offsets

    def abort_unmarked(self) -> None:
        """The abort of what a producer has written next takes along what has no marker."""
        while self._unmarked:
            self._end(self._unmarked.pop(0), commit=False)

    def time_out(self) -> None:
        """What is open is aborted."""
        for transactional_id in list(self.open):
            self.end_transaction(transactional_id, commit=False)

    # as those see it who read what is committed

    def stable_end(self, partition: TopicPartition) -> int:
        log = self.logs[partition]
        still_open = (offset for offset, (_, of) in enumerate(log) if of is not None and of.outcome is None)
        return next(still_open, len(log))

    def committed_records(self, partition: TopicPartition) -> list[RawRecord]:
        """What a consumer has read when it has read all."""
        return [r for r, of in self.logs[partition] if r is not None and (of is None or of.outcome)]

    def values(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """What was committed to a topic, key and value, by partition."""
        return [(r.key, r.value) for p in range(self.partitions[topic]) for r in self.committed_records(TopicPartition(topic, p))]

    def fetch(self, ranges: Sequence[FetchRange], headers: bool = True) -> dict[TopicPartition, RawColumns]:
        self.on_fetch()
        found = {}
        for r in ranges:
            partition = TopicPartition(r.topic, r.partition)
            assert r.end <= self.stable_end(partition), "a consumer would wait there until a transaction ends"
            records = [some for some in self.committed_records(partition) if r.start <= some.offset < r.end]
            found[partition] = RawColumns.of(r.topic, r.partition, records)
        return found

    def expect(self, next_range: FetchRange) -> None: ...

    def rest(self) -> None: ...

    def serve(self) -> None: ...

    def close(self) -> None: ...

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def log_ends(self, partitions: Iterable[TopicPartition], committed: bool = True) -> dict[TopicPartition, int]:
        return {p: self.stable_end(p) if committed else len(self.logs[p]) for p in partitions}

    def log_bounds(
        self, partitions: Iterable[TopicPartition], committed_only: bool, *, reachable: bool = False
    ) -> dict[TopicPartition, LogBounds]:
        return {p: LogBounds(0, len(self.logs[p]), self.stable_end(p), topic_id=1) for p in partitions}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(topics, 1)

    def read_committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; as Kafka, not before transactions that are about to change it have ended."""
        asked = set(partitions)
        assert not any(asked & t.offsets.keys() for t in self.open.values()), "offsets are asked for that are not stable"
        return {p: self.offsets[p] for p in asked if p in self.offsets}


class Producer:
    """What a lane writes with; whoever opens it ends what was left open under its id."""

    transactional = True

    def __init__(self, brokers: Brokers, transactional_id: str, reached: Callable[[Step], None]) -> None:
        self._brokers, self._id, self._reached = brokers, transactional_id, reached
        self._ends: dict[TopicPartition, int] = {}
        brokers.end_transaction(transactional_id, commit=False)

    def begin(self) -> None:
        self._ends.clear()
        self._transaction = self._brokers.open[self._id] = Transaction()
        self._reached(Step.BEGUN)

    def write(self, produced: Sequence[Any], refused: Any = None) -> None:
        for record in records_of(produced):
            topic, partition, key, *rest = record
            if partition is None:
                partition = 0 if key is None else default_partition(key, self._brokers.partitions[topic])
            target = TopicPartition(topic, partition)
            self._transaction.partitions.add(target)
            self._ends[target] = self._brokers.append(topic, partition, key, *rest, of=self._transaction) + 1
            self._reached(Step.PRODUCED_IN_PART)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: bytes) -> None:
        self._reached(Step.PRODUCED)
        if int(group_metadata) != self._brokers.generation:
            raise TaskMigratedError("an old generation")
        self._transaction.offsets |= offsets
        self._reached(Step.OFFSETS_SENT)
        self._brokers.end_transaction(self._id, commit=True)
        self._reached(Step.COMMITTED)

    def abort(self) -> None:
        if self._brokers.open.get(self._id) is self._transaction:
            self._brokers.end_transaction(self._id, commit=False)

    def serve(self) -> None: ...

    def close(self) -> None: ...

    def end_of(self, partition: TopicPartition) -> int | None:
        return self._ends.get(partition)


class Lane(LaneWorker):
    """A lane with such a producer, and such brokers."""

    def __init__(self, application: Application, lane: int, brokers: Brokers, reached: Callable[[int, Step], None]) -> None:
        self.application, self.lane, self.client_id = application, lane, f"client-{lane}"
        self.tasks, self.work = lane_tasks(application, brokers), CurrentWork()
        self.dead = False
        self._on_step = reached
        self._written: list[TaskId] = []
        producer: Any = Producer(brokers, application.transactional_id(lane), self._reached)
        self.producer = producer
        write_stores = self.tasks.post_commit

        def post_commit(task_id: TaskId, _: Any) -> None:
            write_stores(task_id, producer)
            self._reached(Step.STORE_WRITTEN_IN_PART)

        self.tasks.post_commit = post_commit  # type: ignore[method-assign]
        self._abort, producer.abort = producer.abort, self._abort_alive

    def _abort_alive(self) -> None:
        if not self.dead:
            self._abort()

    def _reached(self, step: Step) -> None:
        try:
            self._on_step(self.lane, step)
        except Crash:
            self.dead = True
            raise

    def end(self) -> None:
        """Close the stores without writing anything: what a killed process leaves."""
        self.tasks.close_dirty()


def lane_tasks(application: Application, brokers: Any) -> LaneTasks:
    """The tasks of a lane, or of the stage, that read from these brokers."""
    tasks = LaneTasks(application, "client")
    tasks._fetcher = tasks._admin_client = brokers
    tasks._restorer._fetcher = brokers
    return tasks


class Instance:
    """A driver with two lanes: tasks of even partitions in the first, of odd ones in the second."""

    shows_lag = True
    """Whether what is shown of sources before a shuffle is committed at once; or it always comes too late."""

    def __init__(self, topology: Any, brokers: Brokers, folder: Path, process: str, config: Mapping[str, Any]) -> None:
        settings = {"application.id": APPLICATION, "bootstrap.servers": "localhost:9", "processing.guarantee": "exactly_once_v2"}
        self.config = StreamsConfig({**settings, "state.dir": str(folder / process), **config})
        self.brokers = brokers
        builder = topology.internal_topology_builder
        builder.rewrite_topology(self.config)
        self.plan = self._whole = make_plan(builder.subtopologies(APPLICATION, {}), brokers.partitions, self.config)
        admin: Any = brokers
        self.positions = Positions(
            self.plan, APPLICATION, admin, brokers.read_committed, builder, "earliest", SystemClock(), committed_only=True
        )
        self._application = Application("key", self.config, self.plan, None, process, "client")
        self._stage = lane_tasks(self._application, brokers)
        self._owners = {task: task.partition % len(LANES) for task in self.plan.tasks()}
        self._on_step: Callable[[int, Step], None] = lambda lane, step: None
        self.lanes: dict[int, Lane] = {}
        self.generation = 0
        self.is_open = False
        self._left_shuffle_at = -1

    def change_over(self) -> None:
        """A new generation of the group, in which repartitions go the other way; lanes, and what they know, stay as they are."""
        before = self.plan
        self.plan = self._whole.shuffling(()) if before is self._whole else self._whole
        assert self.plan is not before
        self.positions.drop({*before.tasks(), *self.plan.tasks()})
        self.positions.go_by(self.plan)
        self._owners = {task: task.partition % len(LANES) for task in self.plan.tasks()}
        self.brokers.generation += 1
        self.is_open = False

    # open and close

    def open(self, *, wait: bool = True) -> None:
        """Own everything in the group's generation of now; a lane that goes on in it does not notice that another has failed."""
        anew = self.generation != self.brokers.generation or self.positions.is_drained
        self.generation = self.brokers.generation
        begun = [lane for lane in LANES if anew or lane not in self.lanes]
        for lane in begun:
            if lane in self.lanes:
                self.lanes[lane].tasks.own({})
            else:
                self.lanes[lane] = Lane(self._application, lane, self.brokers, self._reached)
        self.leave_shuffle()
        tasks, read = [task for lane in begun for task in self._tasks_of(lane)], self.positions.copy()
        read.drop(tasks)
        read.add(tasks)
        self.positions.take(read, tasks)
        self.show_lag()
        for lane in begun:
            self.lanes[lane].tasks.own({task: self.positions.of_task(task) for task in self._tasks_of(lane)})
        while wait and not self.restore():
            pass

    def _tasks_of(self, lane: int) -> list[TaskId]:
        return [task for task, at in self._owners.items() if at == lane]

    def show_lag(self) -> None:
        """Commit what is shown of sources before a shuffle, where that is soon enough."""
        if self.shows_lag:
            self.brokers.offsets |= self.positions.shown()

    def leave_shuffle(self) -> None:
        """One commit by the group's leader, before anything is opened."""
        moved = self.positions.following_moves()
        assert not any(is_vector(committed) for committed in moved.values()), "nobody has moved an offset"
        leader: Any = SimpleNamespace(is_leader=True, commit=lambda offsets, **_: self.brokers.offsets.update(offsets))
        if self.generation != self._left_shuffle_at:
            assert leave_shuffle(leader, self.positions, self.generation)
        self._left_shuffle_at = self.generation

    def restore(self, seconds: float = 60.0) -> bool:
        """Go on with restoring; whether it is done."""
        answer = LaneAnswer("here")
        for worker in self.lanes.values():
            worker.tasks.restore(time.monotonic() + seconds, answer)
        self.is_open = not answer.restoring
        return self.is_open

    def die(self) -> None:
        """All processes of the instance end at once."""
        for worker in self.lanes.values():
            worker.end()
        self.lanes.clear()
        self.is_open = False

    # turns

    def turn(
        self,
        at: Callable[[int, Step], None] = lambda lane, step: None,
        up_to: Mapping[str, int] = MappingProxyType({}),
        max_records: int = _EVERYTHING,
    ) -> bool:
        """One turn of each lane; False where there is nothing to do. `at` is told each step of each lane and may end it there.

        Where one has ended the others finish theirs, and the one has to be opened again.
        """
        assert self.is_open
        ends = self.brokers.log_ends(self.positions.sources())
        known = {p: min(end, up_to.get(p.topic, end)) for p, end in ends.items()}
        parts = self._run_stages(known, lambda _: max_records)
        self._on_step = at
        done = False
        for lane in LANES:
            part, tasks = parts.get(lane), self._tasks_of(lane)
            due = [t for t, opened in self.lanes[lane].tasks.running.items() if opened.task.has_records_queued]
            turn = plan_turn(self.plan, self.positions, known, tasks, due, lambda _: max_records, part=part)
            if turn is not None:
                self._lane_turn(lane, turn, ends)
                done = True
        self.is_open = self.is_open and not self.positions.is_drained
        return done

    def _run_stages(self, ends: Mapping[TopicPartition, int], limit: Callable[[int], int]) -> dict[int, StagePart]:
        """One stage for the tasks at the front, one for those behind it; each lane takes up one of them."""
        vectors, parts = self.positions.vectors, dict[int, StagePart]()
        feeds = {task: fed for task in self._owners if (fed := self.positions.fed(task))}
        if self.positions.draining:
            return {}
        for window in (catch_up_window(feeds, vectors, ends, limit(0)), front_window(feeds, vectors, ends)):
            stage = plan_stage(self.plan, "unit", window, vectors, limit)
            for lane in LANES if stage is not None else ():
                assert stage is not None
                mine = {task: fed for task, fed in stage.feeds.items() if self._owners[task] == lane}
                if mine and lane not in parts:
                    fed = {partition for some in mine.values() for partition in some}
                    batches = (self._stage.upstream([work])[0] for work in stage.upstream)
                    rows = [batch_blob(target, batch) for some in batches for target, batch in some.items() if target in fed]
                    parts[lane] = StagePart(stage, mine, rows)
        return parts

    def _lane_turn(self, lane: int, turn: Turn, ends: Mapping[TopicPartition, int]) -> None:
        answer, group = LaneAnswer("here"), str(self.generation).encode()
        told = {task: replace(some, lags=self._lags(task, some, ends)) for task, some in turn.work.items()}
        blobs = [] if turn.part is None else turn.part.rows
        try:
            told_turn = ProcessTurn("key", lane, told, (), group, read=turn.read)
            self.lanes[lane].process(told_turn, dict(read_blobs(blobs).batches), answer)
            self._on_step(lane, Step.STORE_WRITTEN)
            account(self.positions, turn, answer)
            self.show_lag()  # after every turn, and not only every second
            self._on_step(lane, Step.ACCOUNTED)
        except (Crash, TaskMigratedError):
            self.lanes.pop(lane).end()
            self.is_open = False

    def run(self, max_records: int = _EVERYTHING) -> None:
        """Turns until there is nothing to do; what comes in between, as the end of a draining, opens everything anew."""
        while True:
            if not self.is_open:
                self.open()
            if not self.turn(max_records=max_records):
                return

    def _reached(self, lane: int, step: Step) -> None:
        self._on_step(lane, step)

    def _lags(self, task: TaskId, work: Any, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        fetched = {**self.positions.fetched, **{TopicPartition(r.topic, r.partition): r.end for r in work.ranges}}
        return {p: ends[p] - fetched[p] for p in self.positions.inputs(task) if p in fetched}

    # what is in the stores

    def stores(self) -> dict[str, list[str]]:
        """The entries of all stores, by task and name, in the order of their keys' text."""
        return {
            f"{task} {name}": entries(worker.tasks.live_store(task, name))
            for worker in self.lanes.values()
            for task in worker.tasks.running
            for name in self.plan.subtopologies[task.subtopology].store_to_changelog
        }


def entries(store: Any) -> list[str]:
    """All entries of a store that can be iterated, as text."""
    if not hasattr(store, "all"):
        return []  # a buffer, which is seen in what comes out of it
    found = store.all()
    try:
        return sorted(map(repr, found))
    finally:
        found.close()
