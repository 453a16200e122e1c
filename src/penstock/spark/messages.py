"""What the driver sends to a stream thread, and what the thread reports: plain data.

A residency is pickled with the function that Spark runs, as Spark sends the user's code. Reports are not (`reports.py`).
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
from penstock.topology.specs import GlobalTopology

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class Application:
    """All that a stream thread has to know of the application; sent once to each new worker.

    `query_key` and `identity` are what threads and driver prove themselves with to each other; the second only on a cluster.
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

    def transactional_id(self, thread: int) -> str:
        """The transactional id of a thread; a thread that is opened again ends what was left open under it."""
        return f"{self.config['application.id']}-{self.process_id}-{thread + 1}"


class TablesBroadcast(Protocol):
    """Spark's broadcast of the DataFrames that streams are joined with, by the name of their join."""

    @property
    def value(self) -> Mapping[str, PackedTable]:
        """The tables; a worker fetches them when it is first asked."""


@dataclass(frozen=True)
class TaskStart:
    """Where a task begins: what is committed for it, and the offset from which each of its partitions is read."""

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
    """Whether only partitions of repartition topics are read: the application is about to close."""
    application: bytes | None = field(default=None, repr=False)  # it has the secrets in it
    executor: str | None = None
    tables: TablesBroadcast | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RestoreProgress:
    """How far a store's changelog has been read back; what lies `hidden_from` an offset on waits for an open transaction."""

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
    """Seconds since the epoch when it ended."""
    took: float
    read: Mapping[str, int]
    """How many records it read of each topic."""
    processed: int = 0
    punctuated: int = 0
    produced: int = 0
    tasks: int = 0
    """How many tasks were committed."""
    waiting: int = 0
    """How many records had come and were left for the next batch."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each step took: fetch, process, punctuate, commit, store."""

    @property
    def records(self) -> int:
        """How many records it read."""
        return sum(self.read.values())

    @property
    def work_seconds(self) -> float:
        """How long the thread itself worked: the commit waits for brokers."""
        return sum(self.seconds.get(step, 0.0) for step in ("fetch", "process", "store"))


@dataclass
class ThreadReport:
    """What a stream thread has done since its last report; the last report of a residency is the result of its Spark job.

    `lost` says that the worker process is new and has none of the tasks; `failure` what went wrong.
    """

    worker: str = ""
    executor: str = ""
    query_address: str | int | None = None
    site: str = ""
    held: tuple[TaskId, ...] | None = None
    """The tasks that are open; None while the residency still closes and opens tasks."""
    opened: tuple[TaskId, ...] = ()
    """Those of them that work."""
    created: int = 0
    closed: int = 0
    restoring: tuple[RestoreProgress, ...] = ()
    restored: tuple[RestoreProgress, ...] = ()
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """What the residency has committed so far; under at-least-once, what the driver has to commit."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """How far each partition has been read."""
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    """How many records brokers have beyond that."""
    timers: dict[TaskId, int | None] = field(default_factory=dict)
    """When each task wants to run without input: for a punctuator, or because it has waited long enough."""
    idle_until: dict[TaskId, int | None] = field(default_factory=dict)
    """Until when a task with records waits for those of another partition."""
    batches: tuple[BatchReport, ...] = ()
    iterations: int = 0
    """How often the loop of the residency has gone round: a thread whose number does not grow hangs."""
    was_idle: bool = False
    """Whether the residency ended because nothing came."""
    metrics: tuple[MetricsUpdate, ...] = ()
    flow: Flow | None = None
    lost: bool = False
    failure: Failure | None = None
    logs: tuple[LogLine, ...] = ()
    usage: tuple[float, int] | None = None
    """How many seconds of CPU the worker has taken since its start, and how many bytes of memory it has."""


@dataclass(frozen=True)
class Failure:
    """An error in a stream thread: its kind decides what the driver does; the text has the whole traceback."""

    kind: str
    message: str
    traceback: str
    error: Raised | None = None

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        """A failure as it is sent: the error and its causes as far as they are plain data, the traceback as text in any case."""
        kind = type(exc).__name__ if isinstance(exc, PenstockError) else "StreamsError"
        error = Raised.of(exc)
        return cls(kind, error.text, shortened("".join(traceback.format_exception(exc))), error)
