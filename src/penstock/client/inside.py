"""The inside of an instance, for penstock's tests and benchmarks only.

    view = inside(streams)
    view.watch_batches(lambda thread, batch: print(batch.records))

What applications may use is public: `metadata_for_local_threads`, `metrics`, listeners and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.ids import TaskId, TopicPartition
from penstock.spark.messages import BatchReport, RestoreProgress, ThreadReport

if TYPE_CHECKING:
    from penstock.client.kafka_streams import KafkaStreams
    from penstock.client.queries.tables import StateTables
    from penstock.client.scheduling.event_loop import EventLoop
    from penstock.kafka.membership import Membership
    from penstock.spark.driver.session_use import SessionUse
    from penstock.spark.driver.spark_threads import SparkThreads

Address = str | tuple[str, int]
OnBatch = Callable[[int, BatchReport], None]
OnReports = Callable[[Mapping[int, ThreadReport]], None]
OnRestore = Callable[[RestoreProgress, str], None]


def inside(streams: KafkaStreams) -> Inside:
    return streams._inside


class Inside:
    """A view of an instance. Before the start its values are empty."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._loop: EventLoop | None = None
        self._spark_threads: SparkThreads | None = None
        self._session: SessionUse | None = None
        self._tables: StateTables | None = None
        self._on_batches: list[OnBatch] = []
        self._on_reports: list[OnReports] = []
        self._on_restores: list[OnRestore] = []

    def started(self, loop: EventLoop, spark_threads: SparkThreads, session: SessionUse, tables: StateTables) -> None:
        """Set the parts of the started instance."""
        self._loop, self._spark_threads, self._session, self._tables = loop, spark_threads, session, tables

    # -- observers -----------------------------------------------------------------------------------------------------

    def watch_batches(self, hear: OnBatch) -> None:
        """Call `hear(thread, batch)` for each committed batch."""
        self._on_batches.append(hear)

    def watch_reports(self, hear: OnReports) -> None:
        """Call `hear(reports)` for each report of threads."""
        self._on_reports.append(hear)

    def watch_restores(self, hear: OnRestore) -> None:
        """Call `hear(progress, what)` for each step of a restore, with `RestoreEvents`' arguments."""
        self._on_restores.append(hear)

    def batch_done(self, thread: int, batch: BatchReport) -> None:
        """Pass on a committed batch. Called on the event loop's thread."""
        for hear in self._on_batches:
            hear(thread, batch)

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        """Pass on reports. Called on the event loop's thread."""
        for hear in self._on_reports:
            hear(reports)

    def restored(self, progress: RestoreProgress, what: str) -> None:
        """Pass on a step of a restore."""
        for hear in self._on_restores:
            hear(progress, what)

    # -- values ---------------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[TaskId, int]:
        """The thread of each task of this instance, in any state."""
        return {} if self._loop is None else self._loop.owners

    @property
    def is_processing(self) -> bool:
        """True if any thread may be processing."""
        return self._loop is not None and self._loop.is_processing

    @property
    def polls(self) -> int:
        """How often the instance has asked brokers for new records."""
        return 0 if self._loop is None else self._loop.polls

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group with this member."""
        return None if self._loop is None else self._loop.membership

    @property
    def generation(self) -> int:
        """The generation of the running tasks; -1 before the first."""
        adopted = None if self._loop is None else self._loop.tasks.adopted
        return -1 if adopted is None else adopted.generation

    @property
    def fetched(self) -> Mapping[TopicPartition, int]:
        """The read position of each input partition."""
        return {} if self._loop is None else self._loop.tasks.positions()

    @property
    def spark_threads(self) -> SparkThreads:
        """The stream threads on Spark."""
        if self._spark_threads is None:
            raise RuntimeError("the instance has no threads before its start")
        return self._spark_threads

    @property
    def listening(self) -> list[Address | None]:
        """The query addresses of the threads, then the store locator's, which is None before the first table."""
        locator = None if self._tables is None else self._tables.locator_address
        return [*(self.spark_threads.query_address(thread) for thread in self.spark_threads.workers), locator]

    @property
    def session(self) -> SessionUse:
        """The Spark session of the instance."""
        if self._session is None:
            raise RuntimeError("the instance has no session before its start")
        return self._session
