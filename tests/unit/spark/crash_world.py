"""Applications that end at a named step of a batch, over brokers in memory.

The plan, the offsets that tasks begin with, stream threads with their loop, tasks, stores and `Follower` are the real ones.
Brokers, the clients of librdkafka, the group and the clock are not. Records and offsets of a transaction can be read when it has
committed. A transaction that a dying thread leaves open hides what comes behind it until its producer is opened again, or until
it times out. Its records then stay in the log: they take offsets and are never read.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from confluent_kafka import KafkaError, Message

from penstock import StreamsConfig, TaskId, TopicPartition
from penstock.batches.record_batch import RawBatch, records_of
from penstock.client.scheduling.task_offsets import TaskOffsets
from penstock.client.scheduling.vector_upgrade import upgrade
from penstock.clock import SystemClock
from penstock.errors import TaskMigratedError
from penstock.hashing import default_partition
from penstock.kafka.fetch import FetchRange
from penstock.log_bounds import LogBounds
from penstock.record import Headers, RawRecord
from penstock.runtime.offset_metadata import OffsetAndMetadata, from_committed, to_committed
from penstock.spark.messages import Application, BatchReport, Residency, TaskStart, ThreadReport
from penstock.spark.plan import make_plan
from penstock.spark.vectors import is_vector
from penstock.spark.worker import stream_thread
from penstock.spark.worker.stream_thread import StreamThread

APPLICATION = "app"
EVERYTHING = 1_000_000
_LONG_AGO = 1e9
_IN_VAIN = 0.1
"""Brokers wait so long for a record before they answer that there is none, and where a partition ends."""


class Step(str, Enum):
    """Where in a batch a thread ends: right after this."""

    BEGUN = "begun"
    """Read and processed; the transaction is begun, nothing is written."""
    PRODUCED_IN_PART = "produced in part"
    PRODUCED = "produced"
    OFFSETS_SENT = "offsets sent"
    COMMITTED = "committed"
    STORE_WRITTEN_IN_PART = "store written in part"
    """The stores of the first task of the thread."""
    STORE_WRITTEN = "store written"
    REPORTED = "reported"


class Crash(BaseException):
    """The end of a process: nothing that would have come next is done."""


class Form(str, Enum):
    """How records pass a repartition."""

    MEMORY = "memory"
    """One thread has all tasks, and hands records over in memory."""
    BLOCKS = "blocks"
    """Two threads write blocks to the topic."""
    RECORDS = "records"
    """Two threads write plain records to the topic."""

    @property
    def threads(self) -> range:
        return range(1 if self is Form.MEMORY else 2)

    @property
    def config(self) -> dict[str, Any]:
        return {"repartition.format": "records" if self is Form.RECORDS else "blocks"}


class Clock:
    """Stands still but for what threads wait. It is far ahead of the real one, so that no deadline of the code passes."""

    def __init__(self) -> None:
        self._at = time.monotonic() + _LONG_AGO
        self._began, self._ms = self._at, int(time.time() * 1000)

    def now(self) -> float:
        return self._at

    def now_ms(self) -> int:
        return self._ms + int((self._at - self._began) * 1000)

    def advance(self, seconds: float) -> bool:
        self._at += seconds
        return False


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
        self.limits: Mapping[str, int] = {}
        """Topics that consumers do not read beyond an offset, though there is more."""
        self.on_fetch: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, topology: Any, partitions: int, *others: str) -> Brokers:
        """Brokers with all topics of a topology, and others, each with so many partitions."""
        subtopologies = topology.internal_topology_builder.subtopologies(APPLICATION, {})
        topics = {t for s in subtopologies for t in (*s.source_topics, *s.changelog_topics, *s.sink_topics)}
        return cls(dict.fromkeys({*topics, *others}, partitions))

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

    def fetch(self, ranges: Sequence[FetchRange], headers: bool = True) -> dict[TopicPartition, RawBatch]:
        self.on_fetch()
        found = {}
        for r in ranges:
            partition = TopicPartition(r.topic, r.partition)
            assert r.end <= self.stable_end(partition), "a consumer would wait there until a transaction ends"
            records = [some for some in self.committed_records(partition) if r.start <= some.offset < r.end]
            found[partition] = RawBatch.of(r.topic, r.partition, records)
        return found

    def parts(
        self, ranges: Sequence[FetchRange], headers: bool = True
    ) -> Iterator[tuple[dict[TopicPartition, RawBatch], dict[TopicPartition, int]]]:
        yield self.fetch(ranges, headers), {TopicPartition(r.topic, r.partition): r.end for r in ranges}

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


class Consumer:
    """What `Follower` reads with: records in the order of each partition, then, some time later, once where it ends."""

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self._brokers, self._clock = brokers, clock
        self._at: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}
        self._heard = 0.0

    def assign(self, partitions: Iterable[Any]) -> None:
        self.unassign()
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Iterable[Any]) -> None:
        self._at |= {TopicPartition(p.topic, p.partition): p.offset for p in partitions}

    def unassign(self) -> None:
        self._at, self._told = {}, {}

    def poll(self, seconds: float) -> Any:
        found = self.consume(1, seconds)
        if not found:
            self._clock.advance(max(seconds, 0.001))
        return found[0] if found else None

    def consume(self, most: int, seconds: float) -> list[Any]:
        found: list[Any] = []
        for partition, at in self._at.items():
            stable = self._brokers.stable_end(partition)
            end = min(stable, self._brokers.limits.get(partition.topic, stable))
            for raw in self._brokers.committed_records(partition):
                if at <= raw.offset < end and len(found) < most:
                    found.append(_message(raw))
                    self._at[partition] = raw.offset + 1
                    self._heard = self._clock.now()
            if not found and end == stable and self._clock.now() - self._heard >= _IN_VAIN:
                self._at[partition] = stable
                if self._told.get(partition) != stable:
                    self._told[partition] = stable
                    error = KafkaError(KafkaError._PARTITION_EOF)
                    found.append(Message(topic=partition.topic, partition=partition.partition, offset=stable, error=error))
        return found

    def get_watermark_offsets(self, partition: Any, cached: bool) -> tuple[int, int]:
        return 0, len(self._brokers.logs[TopicPartition(partition.topic, partition.partition)])

    def close(self) -> None: ...


def _message(raw: RawRecord) -> Message:
    topic, partition, offset, timestamp, key, value, headers = raw
    return Message(topic, partition, offset, key, value, list(headers) or None, None, (1, timestamp))


class Producer:
    """What a thread writes with; whoever opens it ends what was left open under its id."""

    transactional = True

    def __init__(self, brokers: Brokers, transactional_id: str, reached: Callable[[Step], None]) -> None:
        self._brokers, self._id, self._reached = brokers, transactional_id, reached
        self.ends: dict[TopicPartition, int] = {}
        self.is_dead = False
        self._transaction: Transaction | None = None
        brokers.end_transaction(transactional_id, commit=False)

    def begin(self) -> None:
        self.ends.clear()
        self._transaction = self._brokers.open[self._id] = Transaction()
        self._reached(Step.BEGUN)

    def write(self, produced: Sequence[Any], refused: Any = None) -> None:
        assert self._transaction is not None
        for record in records_of(produced):
            topic, partition, key, *rest = record
            if partition is None:
                partition = 0 if key is None else default_partition(key, self._brokers.partitions[topic])
            target = TopicPartition(topic, partition)
            self._transaction.partitions.add(target)
            self.ends[target] = self._brokers.append(topic, partition, key, *rest, of=self._transaction) + 1
            self._reached(Step.PRODUCED_IN_PART)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: bytes) -> None:
        assert self._transaction is not None
        self._reached(Step.PRODUCED)
        if int(group_metadata) != self._brokers.generation:
            raise TaskMigratedError("an old generation")
        self._transaction.offsets |= {p: as_committed(some) for p, some in offsets.items()}
        self._reached(Step.OFFSETS_SENT)
        self._brokers.end_transaction(self._id, commit=True)
        self._reached(Step.COMMITTED)

    def flush(self) -> None:
        """Under at-least-once: what is written can be read at once, so it is as good as committed."""
        self._brokers.end_transaction(self._id, commit=True)

    def abort(self) -> None:
        if not self.is_dead and self._brokers.open.get(self._id) is self._transaction is not None:
            self._brokers.end_transaction(self._id, commit=False)

    def end_of(self, partition: TopicPartition) -> int | None:
        return self.ends.get(partition)

    def serve(self) -> None: ...

    def close(self) -> None: ...


def as_committed(offset: OffsetAndMetadata) -> OffsetAndMetadata:
    """An offset as it comes back from the brokers."""
    return offset._replace(metadata=from_committed(to_committed(offset.metadata)))


class Queries:
    """In place of the listener for queries: calls a thread back after so many batches."""

    def __init__(self, clock: Clock) -> None:
        self.batch = threading.Lock()
        self.leave: Any = SimpleNamespace(wait=clock.advance)
        self.address = None
        self.batches_left = 0

    def begin(self, number: int) -> None: ...

    def is_called_back(self, number: int) -> bool:
        return self.batches_left <= 0

    def close(self) -> None: ...


class Thread(StreamThread):
    """A stream thread over such brokers. It tells each step of a batch, and ends there if that raises `Crash`."""

    queries: Any
    producer: Any

    def __init__(
        self, application: Application, index: int, brokers: Brokers, clock: Clock, reached: Callable[[int, Step], None]
    ) -> None:
        def reached_step(step: Step) -> None:
            try:
                reached(index, step)
            except Crash:
                self.producer.is_dead = True
                raise

        self._reached = reached_step
        name = threading.current_thread().name
        producer = Producer(brokers, application.transactional_id(index), reached_step)
        with (
            patch.object(stream_thread, "ThreadProducer", lambda *_: producer),
            patch.object(stream_thread, "QueryListener", lambda *_: Queries(clock)),
        ):
            super().__init__(application, index, None, clock.now, clock.now_ms)
        threading.current_thread().name = name
        tasks: Any = self.tasks
        tasks._admin_client = tasks._restorer._fetcher = brokers
        tasks.follower._consumer, tasks._clock = Consumer(brokers, clock), clock
        write_stores = tasks.post_commit

        def post_commit(task_id: TaskId, _: Any) -> None:
            write_stores(task_id, self.producer)
            reached_step(Step.STORE_WRITTEN_IN_PART)

        tasks.post_commit = post_commit

    def _add_batch(self, batch: BatchReport, commits: Any) -> None:
        self._reached(Step.STORE_WRITTEN)
        super()._add_batch(batch, commits)
        self.queries.batches_left -= 1
        self._reached(Step.REPORTED)

    def restore(self) -> bool:
        """Go on with restoring; whether it is done."""
        self._restore_some()
        return not self.tasks.restoring

    def end(self) -> None:
        """Close the stores without writing anything: what a killed process leaves."""
        self.idle.close()
        self.tasks.close_dirty()


class Instance:
    """A driver with its threads: the tasks of even partitions in the first, those of odd ones in the second."""

    def __init__(
        self,
        topology: Any,
        brokers: Brokers,
        folder: Path,
        process: str = "a",
        config: Mapping[str, Any] = MappingProxyType({}),
        form: Form = Form.BLOCKS,
    ) -> None:
        settings = {"application.id": APPLICATION, "bootstrap.servers": "localhost:9", "processing.guarantee": "exactly_once_v2"}
        self.config = StreamsConfig({**settings, "state.dir": str(folder / process), **form.config, **config})
        self.brokers, self.clock, self.form = brokers, Clock(), form
        builder = topology.internal_topology_builder
        builder.rewrite_topology(self.config)
        self.plan = make_plan(builder.subtopologies(APPLICATION, {}), brokers.partitions, self.config)
        admin: Any = brokers
        self.offsets = TaskOffsets(
            self.plan, APPLICATION, admin, brokers.read_committed, builder, "earliest", SystemClock(), committed_only=True
        )
        self._application = Application("key", self.config, self.plan, None, process, "client")
        self._on_step: Callable[[int, Step], None] = lambda thread, step: None
        self.threads: dict[int, Thread] = {}
        self.reports: list[ThreadReport] = []
        self._starts: dict[TaskId, TaskStart] = {}
        self._numbers = count(1)
        self.generation = 0

    def tasks_of(self, thread: int) -> list[TaskId]:
        return [task for task in self.plan.tasks() if task.partition % len(self.form.threads) == thread]

    @property
    def is_open(self) -> bool:
        return self.generation == self.brokers.generation and self.threads.keys() == set(self.form.threads)

    # open and close

    def open(self) -> None:
        """Own everything in the group's generation of now. A thread that lives goes on in it, though another one has failed."""
        anew = self.generation != self.brokers.generation
        self.generation = self.brokers.generation
        begun = [index for index in self.form.threads if anew or index not in self.threads]
        for index in begun:
            if index in self.threads:
                self._reside(index, {}, 0.0)
            else:
                self.threads[index] = Thread(self._application, index, self.brokers, self.clock, self._reached)
        self.upgrade()
        tasks = [task for index in begun for task in self.tasks_of(index)]
        self._starts |= self.offsets.read(tasks)
        for index in begun:
            self._reside(index, {task: self._starts[task] for task in self.tasks_of(index)}, 0.0)

    def upgrade(self) -> None:
        """One commit by the leader of the group, before anything is opened."""

        def commit(offsets: Mapping[TopicPartition, OffsetAndMetadata], **_: Any) -> None:
            self.brokers.offsets |= {p: as_committed(some) for p, some in offsets.items()}

        leader: Any = SimpleNamespace(is_leader=True, commit=commit)
        assert upgrade(leader, self.offsets, self.generation)
        assert not any(map(is_vector, self.brokers.offsets.values()))

    def restore(self) -> bool:
        """Go on with restoring; whether it is done."""
        for thread in self.threads.values():
            thread.restore()
        return not any(thread.tasks.restoring for thread in self.threads.values())

    def die(self) -> None:
        """All processes of the instance end at once."""
        for thread in self.threads.values():
            thread.end()
        self.threads.clear()

    # batches

    def turn(
        self,
        at: Callable[[int, Step], None] = lambda thread, step: None,
        up_to: Mapping[str, int] = MappingProxyType({}),
        max_records: int = EVERYTHING,
        batches: int = 1,
    ) -> int:
        """One batch of each thread; returns how many there were. `at` is told each step of each thread and may end it there."""
        self.brokers.limits, self._on_step = up_to, at
        done = 0
        for index in list(self.threads):
            self.threads[index].queries.batches_left = batches
            tasks = {task: self._starts[task] for task in self.tasks_of(index)}
            try:
                self._reside(index, tasks, _LONG_AGO, max_records)
            except (Crash, TaskMigratedError):
                self.threads.pop(index).end()
                done += 1
                continue
            done += batches - self.threads[index].queries.batches_left
        self.brokers.limits, self._on_step = {}, lambda thread, step: None
        return done

    def _reside(self, index: int, tasks: Mapping[TaskId, TaskStart], seconds: float, max_records: int = EVERYTHING) -> None:
        group = str(self.generation).encode()
        residency = Residency("key", index, next(self._numbers), tasks, group, seconds, 0.5, 0.1, max_records)
        thread = self.threads[index]
        try:
            thread.run(residency)
        finally:
            self.reports.append(thread.take_report())

    def run(self, max_records: int = EVERYTHING) -> None:
        """Batches until there is nothing to do; threads that have ended are opened anew."""
        while True:
            if not self.is_open:
                self.open()
            if not self.turn(max_records=max_records, batches=EVERYTHING):
                return

    def _reached(self, thread: int, step: Step) -> None:
        self._on_step(thread, step)

    # what is in the stores

    def stores(self) -> dict[str, list[str]]:
        """The entries of all stores, by task and name, in the order of their keys' text."""
        return {
            f"{task} {name}": entries(thread.tasks.live_store(task, name))
            for thread in self.threads.values()
            for task in sorted(thread.tasks.running)
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
