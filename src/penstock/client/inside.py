"""What goes on inside an instance, for penstock's own tests and benchmarks: all they may look at, and no public API.

    view = inside(streams)
    view.watch_batches(lambda thread, batch: print(batch.records))

Whatever an application can ask itself is not here: `metadata_for_local_threads`, `metrics`, listeners and logs tell it.
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
HearBatch = Callable[[int, BatchReport], None]
HearReports = Callable[[Mapping[int, ThreadReport]], None]
HearRestore = Callable[[RestoreProgress, str], None]


def inside(streams: KafkaStreams) -> Inside:
    """The inside of an instance."""
    return streams._inside


class Inside:
    """A view of an instance. It is there from the beginning; what is not there before the start is empty until then."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self._loop: EventLoop | None = None
        self._spark_threads: SparkThreads | None = None
        self._session: SessionUse | None = None
        self._tables: StateTables | None = None
        self._hear_batches: list[HearBatch] = []
        self._hear_reports: list[HearReports] = []
        self._hear_restores: list[HearRestore] = []

    def started(self, loop: EventLoop, spark_threads: SparkThreads, session: SessionUse, tables: StateTables) -> None:
        """The instance says what it consists of."""
        self._loop, self._spark_threads, self._session, self._tables = loop, spark_threads, session, tables

    # -- to listen -----------------------------------------------------------------------------------------------------

    def watch_batches(self, hear: HearBatch) -> None:
        """Hear of every batch: its thread, and what it came to."""
        self._hear_batches.append(hear)

    def watch_reports(self, hear: HearReports) -> None:
        """Hear of every report of a thread."""
        self._hear_reports.append(hear)

    def watch_restores(self, hear: HearRestore) -> None:
        """Hear of every step of a restore, as `RestoreEvents` does."""
        self._hear_restores.append(hear)

    def batch_done(self, thread: int, batch: BatchReport) -> None:
        """A batch of a thread is committed; on the event loop's thread."""
        for hear in self._hear_batches:
            hear(thread, batch)

    def reported(self, reports: Mapping[int, ThreadReport]) -> None:
        """Threads have reported; on the event loop's thread."""
        for hear in self._hear_reports:
            hear(reports)

    def restored(self, progress: RestoreProgress, what: str) -> None:
        """A restore has come a step further."""
        for hear in self._hear_restores:
            hear(progress, what)

    # -- to look -------------------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[TaskId, int]:
        """The thread of each task that the instance has, whatever state it is in."""
        return {} if self._loop is None else self._loop.owners

    @property
    def is_processing(self) -> bool:
        """Whether any thread may be processing."""
        return self._loop is not None and self._loop.is_processing

    @property
    def polls(self) -> int:
        """How often it has asked the brokers whether there is anything to read."""
        return 0 if self._loop is None else self._loop.polls

    @property
    def membership(self) -> Membership | None:
        """The last generation of the group that it was part of."""
        return None if self._loop is None else self._loop.membership

    @property
    def generation(self) -> int:
        """The generation whose tasks it runs; -1 before the first."""
        adopted = None if self._loop is None else self._loop.tasks.adopted
        return -1 if adopted is None else adopted.generation

    @property
    def fetched(self) -> Mapping[TopicPartition, int]:
        """How far input partitions are read, processed or not."""
        return {} if self._loop is None else self._loop.tasks.positions()

    @property
    def spark_threads(self) -> SparkThreads:
        """Its threads and their jobs on Spark."""
        if self._spark_threads is None:
            raise RuntimeError("the instance has no threads before its start")
        return self._spark_threads

    @property
    def listening(self) -> list[Address | None]:
        """The query addresses of its threads, then the address of the store locator, which is None before the first table."""
        locator = None if self._tables is None else self._tables.locator_address
        return [*(self.spark_threads.query_address(thread) for thread in self.spark_threads.workers), locator]

    @property
    def session(self) -> SessionUse:
        """The session of Spark that it runs on."""
        if self._session is None:
            raise RuntimeError("the instance has no session before its start")
        return self._session
