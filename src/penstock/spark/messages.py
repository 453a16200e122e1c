"""The messages between the driver and a stream thread: plain data.

A residency is pickled with the function that Spark runs, as Spark sends user code. Reports are not pickled
(`spark/reports.py`).
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError
from penstock.ids import TaskId, TopicPartition
from penstock.log_lines import LogLine
from penstock.metrics.transfer import MetricsUpdate
from penstock.operators.joins.lookup_table import PackedTable
from penstock.runtime.flow import Flow
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.spark.identity import Identity
from penstock.spark.plan import Plan
from penstock.spark.raised import Raised, shortened
from penstock.spark.staged_history import Staged
from penstock.topology.specs import GlobalTopology

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class Application:
    """Everything that a stream thread needs of the application. It is sent once to each new worker.

    Threads and driver authenticate each other with `query_key` and, on a cluster, `identity`.
    """

    key: str
    config: StreamsConfig
    plan: Plan
    global_topology: GlobalTopology | None
    process_id: str
    client_id: str
    import_path: tuple[str, ...] = ()
    query_key: bytes = field(default=b"", repr=False)
    identity: Identity | None = field(default=None, repr=False)
    staged: Staged = field(default_factory=dict, repr=False)
    """The history of source partitions that is read before their topics."""

    def transactional_id(self, thread: int) -> str:
        """Return the transactional id of a thread. Reopening the thread aborts the transaction left open under it."""
        return f"{self.config['application.id']}-{self.process_id}-{thread + 1}"


class TablesBroadcast(Protocol):
    """Spark's broadcast of the DataFrames that streams are joined with, by the name of their join."""

    @property
    def value(self) -> Mapping[str, PackedTable]:
        """The tables; a worker fetches them when it is first asked."""


@dataclass(frozen=True)
class TaskStart:
    """The start of a task: its committed offsets, and the offset from which each partition is read."""

    committed: Committed = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Residency:
    """One Spark job of a stream thread: own exactly these tasks, and run the thread's loop.

    It ends after `seconds`, when the driver calls the thread back, and when nothing has come for `idle_seconds`. With 0 seconds
    the thread only closes and opens tasks: the application is paused, or the thread has just been started.

    `executor` is where the thread was placed; elsewhere nothing is opened.
    """

    key: str
    thread: int
    number: int
    """Counts the residencies of an application; the driver calls a thread back by it."""
    tasks: Mapping[TaskId, TaskStart] = field(default_factory=dict)
    group_metadata: bytes = b""
    """Member and generation under which transactions are committed."""
    seconds: float = 0.0
    idle_seconds: float = 0.0
    commit_seconds: float = 0.1
    max_records: int = 500_000
    drains: bool = False
    """True if only repartition topics are read: the application is about to close."""
    until: Mapping[TopicPartition, int] | None = None
    """In a backfill: the end offset of each source partition."""
    application: bytes | None = field(default=None, repr=False)  # contains the application's secrets
    executor: str | None = None
    tables: TablesBroadcast | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RestoreProgress:
    """The progress of restoring a store. Records from `hidden_from` on wait for an open transaction."""

    task_id: TaskId
    store: str
    partition: TopicPartition
    start: int
    position: int
    end: int
    restored: int
    hidden_from: int | None = None


@dataclass(frozen=True)
class BatchReport:
    """One batch of a thread: poll, process, punctuate, commit."""

    at: float
    """The end of the batch in seconds since the epoch."""
    took: float
    read: Mapping[str, int]
    """The number of records read from each topic."""
    processed: int = 0
    punctuated: int = 0
    produced: int = 0
    tasks: int = 0
    """The number of committed tasks."""
    waiting: int = 0
    """The number of records left for the next batch."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The seconds of each step: fetch, process, punctuate, commit, store."""

    @property
    def records(self) -> int:
        """The number of records read."""
        return sum(self.read.values())

    @property
    def work_seconds(self) -> float:
        """The seconds without the commit, which waits for brokers."""
        return sum(self.seconds.get(step, 0.0) for step in ("fetch", "process", "store"))


@dataclass
class ThreadReport:
    """The work of a stream thread since its last report. The last report of a residency is the result of its Spark job.

    `lost`: the worker process is new and has no task open. `failure`: the error, if any.
    """

    worker: str = ""
    executor: str = ""
    query_address: str | int | None = None
    site: str = ""
    held: tuple[TaskId, ...] | None = None
    """The tasks that are open; None while the residency still closes and opens tasks."""
    opened: tuple[TaskId, ...] = ()
    """The open tasks that are running, and not restoring."""
    created: int = 0
    closed: int = 0
    restoring: tuple[RestoreProgress, ...] = ()
    restored: tuple[RestoreProgress, ...] = ()
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """The offsets committed in this residency. Under at-least-once, the offsets that the driver has to commit."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """The read position of each partition."""
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    """The number of records that brokers have beyond the positions."""
    timers: dict[TaskId, int | None] = field(default_factory=dict)
    """The time at which each task must run without input, for a punctuator or because `max.task.idle.ms` ends."""
    idle_until: dict[TaskId, int | None] = field(default_factory=dict)
    """The time until which a task with records waits for those of another partition."""
    batches: tuple[BatchReport, ...] = ()
    iterations: int = 0
    """The number of loop iterations of the residency. If it does not grow, the thread hangs."""
    was_idle: bool = False
    """True if the residency ended because no records came."""
    metrics: tuple[MetricsUpdate, ...] = ()
    flow: Flow | None = None
    lost: bool = False
    failure: Failure | None = None
    logs: tuple[LogLine, ...] = ()
    usage: tuple[float, int] | None = None
    """The worker's CPU seconds since its start, and its memory in bytes."""


@dataclass(frozen=True)
class Failure:
    """An error in a stream thread. `kind` decides the driver's reaction; `traceback` has the whole text."""

    kind: str
    message: str
    traceback: str
    error: Raised | None = None

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        """Return an exception as a failure: the error and its causes if they are plain data, and always the traceback as
        text.
        """
        kind = type(exc).__name__ if isinstance(exc, PenstockError) else "StreamsError"
        error = Raised.of(exc)
        return cls(kind, error.text, shortened("".join(traceback.format_exception(exc))), error)
