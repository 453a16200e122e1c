"""What the conductor tells a lane and what the lane answers: plain data.

What goes to a lane is pickled with the function it is for, as Spark sends the user's code. What comes back is not (`answers.py`).
"""

from __future__ import annotations

import heapq
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.config.streams_config import StreamsConfig
from penstock.errors import PenstockError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import FetchRange, Short
from penstock.log_lines import LogLine
from penstock.metrics.transfer import MetricsUpdate
from penstock.runtime.carry_over import OffsetAndMetadata
from penstock.runtime.flow import Flow
from penstock.spark.identity import Identity
from penstock.spark.plan import Plan
from penstock.spark.raised import Raised, shortened
from penstock.topology.specs import GlobalTopology

Committed = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class Application:
    """All a lane has to know of the application; sent once to each new worker.

    `query_key` and `identity` are what lanes and driver prove themselves with to each other; the second only on a cluster.
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

    def transactional_id(self, lane: int) -> str:
        """Under which a lane's transactions run; a lane that is opened again ends what was left open under it."""
        return f"{self.config['application.id']}-{self.process_id}-{lane + 1}"


@dataclass(frozen=True)
class OpenTurn:
    """Own exactly these tasks: close the others, open the missing ones and restore them, for at most `seconds`.

    With none nothing is restored, and what is opened does not work yet: the application is paused.

    `executor` is the one the lane was given; elsewhere nothing is opened.
    """

    key: str
    lane: int
    tasks: Mapping[TaskId, Committed]
    application: bytes | None = field(repr=False)  # it has the secrets in it
    seconds: float = 2.0
    executor: str | None = None


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
class UpstreamWork:
    """Input of one task before a shuffle. `skip` tells, per target partition, how far each of its sources was consumed there.

    Only of its own sources, and only of targets that are ahead: all of every target would be partitions squared.
    """

    subtopology: int
    partition: int
    ranges: tuple[FetchRange, ...]
    skip: Mapping[TopicPartition, Mapping[TopicPartition, int]] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """How many offsets it reads."""
        return sum(r.end - r.start for r in self.ranges)


def even_shares(upstream: Sequence[UpstreamWork], most: int) -> list[tuple[UpstreamWork, ...]]:
    """The work of tasks before a shuffle in so many shares at most, with about as many records in each."""
    shares: list[list[UpstreamWork]] = [[] for _ in range(min(most, len(upstream)))]
    lightest = [(0, 0, index) for index in range(len(shares))]
    for work in sorted(upstream, key=lambda work: work.records, reverse=True):
        records, count, index = heapq.heappop(lightest)
        shares[index].append(work)
        heapq.heappush(lightest, (records + work.records, count + 1, index))
    return [tuple(share) for share in shares]


def read_by(upstream: Iterable[UpstreamWork]) -> dict[TopicPartition, int]:
    """How far tasks before a shuffle read their sources."""
    return {TopicPartition(r.topic, r.partition): r.end for work in upstream for r in work.ranges}


@dataclass(frozen=True)
class TaskWork:
    """Input of one task: what to fetch, how much the brokers have left behind it, and which partitions a shuffle feeds it."""

    ranges: tuple[FetchRange, ...] = ()
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    fed: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class Stay:
    """A lane does turn after turn in one job, of whatever has come to the partitions it follows, each with its own commit.

    It ends after `seconds`, when the driver calls it back, when nothing has come for `idle_seconds`, or when more than
    `most_records` wait: a backlog is planned by who knows how long it is.
    """

    number: int
    """Which stay it is, for who calls it back."""
    tasks: tuple[TaskId, ...]
    """Those that take part: all that the lane has and keeps."""
    positions: Mapping[TopicPartition, int]
    """Where each partition is read on: those that tasks read, and those before a shuffle, the same for all that it feeds."""
    seconds: float
    idle_seconds: float
    commit_seconds: float
    """The longest that a result waits for its commit."""
    most_records: int


@dataclass(frozen=True)
class TurnOfStay:
    """What one turn of a stay came to: when it began after the stay did, how long it took, and what it counted."""

    at: float
    took: float
    read: dict[str, int]
    """How many offsets it read of each topic."""
    records: int
    processed: int
    punctuated: int
    produced: int
    seconds: dict[str, float]


@dataclass(frozen=True)
class ProcessTurn:
    """Fetch, process, punctuate and commit these tasks, as one transaction under exactly-once.

    `stages` are the tasks before a shuffle whose records come through it, each with the checksum of what it sent when it was
    first run; without exactly that of all of them nothing is done. `read` tells, once for all tasks, how far sources before a
    shuffle are read; a task that was further stays there. Tasks that are being restored are brought further for
    `restore_seconds`.
    """

    key: str
    lane: int
    work: Mapping[TaskId, TaskWork]
    upstream: tuple[UpstreamWork, ...]
    group_metadata: bytes
    global_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    with_metrics: bool = True
    stages: Mapping[TaskId, int] = field(default_factory=dict)
    read: Mapping[TopicPartition, int] = field(default_factory=dict)
    restore_seconds: float = 0.0
    stay: Stay | None = None
    optional: frozenset[TaskId] = frozenset()
    """Tasks that have nothing to do where the shuffle brings nothing for them: they stay where they are, and commit nothing."""


@dataclass
class LaneAnswer:
    """What came of a turn. `lost` says that the worker is new and has none of the tasks; `failure` what went wrong.

    `short` are the ranges of which not all could be read.
    """

    worker: str
    executor: str = ""
    query_address: str | int | None = None
    site: str = ""
    begun: tuple[TaskId, ...] = ()
    """Tasks that were not open before this turn, and stand where their commit says."""
    opened: tuple[TaskId, ...] = ()
    restoring: tuple[RestoreProgress, ...] = ()
    restored: tuple[RestoreProgress, ...] = ()
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    timers: dict[TaskId, int | None] = field(default_factory=dict)
    idle_until: dict[TaskId, int | None] = field(default_factory=dict)
    short: dict[TopicPartition, Short] = field(default_factory=dict)
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    """How far a lane has read that stayed for many turns."""
    turns: tuple[TurnOfStay, ...] = ()
    """The turns of a stay, each of which was committed."""
    behind: dict[TopicPartition, dict[TopicPartition, int]] = field(default_factory=dict)
    """The partitions that a shuffle feeds which have not come as far as a stay has read, with how far each source has."""
    goes_on: bool = False
    """Whether a stay has ended for its time alone: there was something to do, and the lane could go on as it is."""
    records: int = 0
    """Records that were read, of input topics and of what a shuffle brought."""
    processed: int = 0
    """Records that tasks processed, those before a shuffle too; what was counted before it counts as what it stands for."""
    postponed: int = 0
    """Records that there was no time for in this turn: they wait in the queues of their tasks."""
    punctuated: int = 0
    produced: int = 0
    created: int = 0
    closed: int = 0
    metrics: MetricsUpdate | None = None
    flow: Flow | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    lost: bool = False
    failure: Failure | None = None
    logs: tuple[LogLine, ...] = ()
    usage: tuple[float, int] | None = None
    """How many seconds of CPU the worker has taken since its start, and how many bytes of memory it has."""

    @property
    def work_seconds(self) -> float:
        """How long records were processed, those before a shuffle too where a stage of its own did that."""
        return sum(self.seconds.get(step, 0.0) for step in ("stage", "process"))

    @property
    def own_seconds(self) -> float:
        """How long a turn of a stay kept the lane itself at work: its records had come, and its commit waits for brokers."""
        return sum(self.seconds.get(step, 0.0) for step in ("fetch", "process", "store"))

    @property
    def surrounding_seconds(self) -> float:
        """How long it took to fetch, to write and to commit: some of that for a single record too."""
        return sum(self.seconds.get(step, 0.0) for step in ("fetch", "commit", "store"))


@dataclass(frozen=True)
class Failure:
    """An error in a lane: its kind decides what the conductor does; the text has the whole traceback."""

    kind: str
    message: str
    traceback: str
    error: Raised | None = None

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        """A failure as it travels: the error and its causes as far as they are plain data, the traceback as text in any case."""
        kind = type(exc).__name__ if isinstance(exc, PenstockError) else "StreamsError"
        error = Raised.of(exc)
        return cls(kind, error.text, shortened("".join(traceback.format_exception(exc))), error)
