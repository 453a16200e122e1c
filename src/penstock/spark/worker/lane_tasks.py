"""The tasks of a lane: opened, restored, fed, committed and closed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

from penstock.clock import SystemClock
from penstock.columns.columns import RawColumns, RecordOrColumns
from penstock.errors import BrokerError, StateStoreNotAvailableError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.admin import Admin
from penstock.kafka.batch_ends import BatchEnds
from penstock.kafka.changelog_reader import ChangelogReader
from penstock.kafka.client_metrics import CONSUMER, ClientMetrics
from penstock.kafka.clients import (
    admin_config,
    consumer_config,
    global_consumer_config,
    log_reader_config,
    producer_config,
    reads_committed,
    restore_consumer_config,
)
from penstock.kafka.fetch import FetchRange, LenientFetcher, RangeFetcher, Short
from penstock.kafka.follow import Follower, Taken
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import LogTransport, log_transport
from penstock.kafka.produce import LaneProducer
from penstock.log_bounds import LogBounds
from penstock.metrics.registry import Metrics
from penstock.metrics.transfer import MetricsSender
from penstock.query.position import Position
from penstock.runtime.carry_over import OffsetAndMetadata, logs_of, with_logs
from penstock.runtime.collector import RecordCollector
from penstock.runtime.flow import Flow
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.key_places import PARTITION, KeyPlaces
from penstock.runtime.task import StreamTask, TaskCommit, TaskEnvironment
from penstock.runtime.task_metrics import TaskCounts, TaskMetrics
from penstock.spark.batch import ShuffledBatch
from penstock.spark.messages import Application, Committed, LaneAnswer, RestoreProgress, TaskWork, UpstreamWork
from penstock.spark.vectors import is_vector, without_vector
from penstock.spark.worker import step_sizes
from penstock.spark.worker.global_tables import LaneGlobalTables
from penstock.spark.worker.lane_metrics import share_processing, take_punctuations, watch_task
from penstock.spark.worker.shuffle_input import ShuffleInput
from penstock.spark.worker.shuffled_before import ShuffledBefore, SkippingCollector
from penstock.spark.worker.upstream import SortedByTarget, TracingCollector, run_upstream, sources_of, upstream_inputs
from penstock.state.cache import RecordCache
from penstock.state.directory import StateDirectory, state_dir_here
from penstock.state.engines.rocksdb_files import delete_folder
from penstock.state.store import StateStore

_NOTHING: Mapping[TopicPartition, int] = MappingProxyType({})
_STAGE_PATIENCE = 10.0
# While a transaction is open: how often it is looked at, and how long after its timeout it is taken for one that never ends.
# Brokers look for transactions that have timed out every ten seconds.
_DECIDED_EVERY, _DECIDED_AFTER = 0.1, 30.0


def _furthest(before: Mapping[TopicPartition, int], read: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The further of both for each source: 64 sources for each of 64 tasks in every turn, so nothing of it is Python's own."""
    return dict(zip(before, map(max, before.values(), map(read.get, before, before.values()))))


class _OpenTask:
    """A task with what only the lane knows of it: what was committed, and how far it has consumed what a shuffle feeds it."""

    def __init__(
        self,
        task: StreamTask,
        committed: Committed,
        had: Mapping[TopicPartition, ShuffledBefore],
        logs: Mapping[TopicPartition, LogBounds],
    ) -> None:
        self.task = task
        self.committed = committed
        self.had = had
        self.logs = dict(logs)
        """Its changelogs as they were when it was opened: nobody else writes to them now, so it is restored up to their ends."""
        self.fed: dict[TopicPartition, ShuffleInput] = {}
        self.position: dict[TopicPartition, int] = {}
        self.announced: set[TopicPartition] = set()
        """Changelogs that somebody knows to be restored."""
        self.only_waits = False
        """Whether all that is left to restore is hidden by open transactions."""
        self.source_logs: dict[TopicPartition, Mapping[str, int]] = {}
        """The ids of the topics that the shuffle behind a partition reads."""

    @property
    def left(self) -> int:
        """How many changelog records there are still to be restored, at most."""
        offsets = self.task.state_manager.changelog_offsets
        return sum(max(0, log.end - max(log.start, offsets.get(partition, 0))) for partition, log in self.logs.items())

    def advance_position(self, committed: Committed) -> None:
        """Account what is committed to the input that the stores reflect: behind a shuffle, that of the sources."""
        for partition, offset in committed.items():
            fed = self.fed.get(partition)
            if fed is None:
                self.position[partition] = offset.offset - 1
            else:
                self.position.update({source: at - 1 for source, at in fed.committed.positions.items()})

    def save_position(self) -> None:
        """Let the next commit of the stores say what of the input it reflects."""
        self.task.state_manager.set_position(Position.of(self.position).to_json().encode())


class LaneTasks:
    """Owns the tasks of one lane, and the consumers that feed them."""

    def __init__(self, application: Application, client_id: str, *, in_stage: bool = False) -> None:
        self._application = application
        self._config = application.config
        self._plan = application.plan
        self._client_id = client_id
        self._metrics = Metrics.from_config(self._config)
        self.metrics = MetricsSender(self._metrics)
        consumer_id, restorer_id = f"{client_id}-consumer", f"{client_id}-restore-consumer"
        settings = consumer_config(self._config, consumer_id)
        # A stage cannot tell the lanes what it has not read: there the driver hears of it and reads the others alone.
        reads = None if in_stage else self.client_metrics(CONSUMER, consumer_id)
        ends = BatchEnds(partial(self._log_transport, restorer_id))
        self._fetcher = (
            RangeFetcher(settings, _STAGE_PATIENCE, batch_end=ends)
            if in_stage
            else LenientFetcher(settings, metrics=reads, batch_end=ends)
        )
        self.follower = Follower(settings, reads)
        self._taken: Taken | None = None
        restoring = restore_consumer_config(self._config, restorer_id)
        self._restores_committed = reads_committed(restoring)
        self._restorer = ChangelogReader(
            RangeFetcher(restoring, metrics=None if in_stage else self.client_metrics(CONSUMER, restorer_id), batch_end=ends),
            partial(self._log_reader, restorer_id),
        )
        self._admin_client: Admin | None = None
        self.short: dict[TopicPartition, Short] = {}
        """The ranges of this turn of which not all could be read."""
        self._waiting_since: dict[TopicPartition, float] = {}
        self._directory = StateDirectory(
            state_dir_here(self._config["state.dir"]),
            self._config["application.id"],
            allow_group_write=self._config["allow.os.group.write.access"],
        )
        settings = global_consumer_config(self._config, client_id)
        self._global_fetcher, committed_only = RangeFetcher(settings, batch_end=ends), reads_committed(settings)
        self._globals_committed = committed_only
        self._globals = LaneGlobalTables(
            *(application, self._directory, self._global_fetcher, client_id),
            lambda partitions: self._admin.log_bounds(partitions, committed_only),
        )
        self._clock = SystemClock()
        self._restoring: dict[TaskId, _OpenTask] = {}
        self.running: dict[TaskId, _OpenTask] = {}
        self._key_places: dict[TaskId, KeyPlaces] = {}
        self._before_shuffle: dict[TaskId, StreamTask] = {}
        self._counted_before: dict[TaskId, TaskMetrics] = {}
        """The metrics of tasks before a shuffle, whether they run here or tell what they counted elsewhere."""

    def _log_reader(self, client_id: str) -> LogReader:
        return LogReader(self._log_transport(client_id), self._restores_committed)

    def _log_transport(self, client_id: str) -> LogTransport:
        return log_transport(log_reader_config(self._config, client_id), self._admin.leader, self._restores_committed)

    def client_metrics(self, kind: str, client_id: str) -> ClientMetrics:
        """Where a client of this lane tells its statistics."""
        return ClientMetrics(self._metrics, kind, client_id)

    def serve(self) -> None:
        """Let consumers that rest tell their statistics."""
        self._fetcher.serve()
        self.follower.serve()
        self._restorer.serve()

    @property
    def ids(self) -> set[TaskId]:
        """The tasks that are open here, restored or not."""
        return {*self.running, *self._restoring}

    # -- open ----------------------------------------------------------------------------------------------------------

    def own(self, wanted: Mapping[TaskId, Committed]) -> None:
        """Close the tasks that are not wanted; open those that are missing."""
        for task_id in [t for t in (*self.running, *self._restoring) if t not in wanted]:
            self._close(task_id)
        self._forget_before_shuffle(wanted)
        self._globals.open()
        new = [task_id for task_id in wanted if task_id not in self.running and task_id not in self._restoring]
        logs = self._logs(new)
        for task_id in new:
            self._restoring[task_id] = self._open(task_id, wanted[task_id], logs)

    @property
    def _admin(self) -> Admin:
        self._admin_client = self._admin_client or Admin(admin_config(self._config, self._client_id))
        return self._admin_client

    def _logs(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, LogBounds]:
        """The logs of all changelogs of tasks."""
        changelogs = [p for task_id in tasks for p in self._plan.changelogs(task_id)]
        return self._admin.log_bounds(changelogs, self._restores_committed) if changelogs else {}

    def restore(self, deadline: float, answer: LaneAnswer) -> None:
        """Bring stores up to the end of their changelogs until the deadline; tasks that are done go to work.

        Those with the least left come first: they work while their neighbours are restored.
        """
        self._await_decisions(deadline)
        for task_id, opened in sorted(self._restoring.items(), key=lambda entry: entry[1].left):
            missing = self._restore_task(task_id, opened, deadline, answer)
            if missing:
                answer.restoring += tuple(missing)
                continue
            opened.task.complete_restoration({p: without_vector(c) for p, c in opened.committed.items()})
            del self._restoring[task_id]
            self.running[task_id] = opened
        if not self._restoring:
            self._restorer.rest()
        elif answer.restoring:
            self._expect_next(answer.restoring)

    def _expect_next(self, restoring: Sequence[RestoreProgress]) -> None:
        """Begin to fetch what the next call restores first: it comes while the driver hears how far this one got."""
        first = min(self._restoring.items(), key=lambda entry: entry[1].left)[0]
        opened, left = self._restoring[first], sum(progress.end - progress.position for progress in restoring)
        for progress in restoring:
            if progress.task_id == first and progress.hidden_from is None:
                until = min(progress.end, opened.logs[progress.partition].stable_end)
                headers = opened.task.state_manager.restores_headers(progress.partition)
                self._restorer.expect(FetchRange(*progress.partition, progress.position, until), headers, left)
                return

    def _await_decisions(self, deadline: float) -> None:
        """Where all that is missing is hidden by open transactions, wait until one is decided.

        A turn that was under way when its lane died has left it open. A lane that is opened again ends its own; that of
        another instance is ended by the brokers when it times out.
        """
        restored = {partition for opened in self._restoring.values() for partition in opened.logs}
        hidden = {partition: since for partition, since in self._waiting_since.items() if partition in restored}
        self._waiting_since = dict(hidden)
        while hidden:
            stable = self._admin.log_ends(hidden, True)
            for opened in self._restoring.values():
                for partition in hidden.keys() & opened.logs.keys():
                    if stable[partition] > opened.logs[partition].stable_end:
                        opened.logs[partition] = opened.logs[partition]._replace(stable_end=stable[partition])
                        self._waiting_since.pop(partition, None)
            decided, others = len(self._waiting_since) < len(hidden), any(not o.only_waits for o in self._restoring.values())
            if decided or others or time.monotonic() >= deadline:
                return
            longest = max(time.monotonic() - since for since in hidden.values())
            if longest > self._transaction_seconds + _DECIDED_AFTER:
                told = ", ".join(f"{partition} at offset {stable[partition]}" for partition in hidden)
                raise BrokerError(
                    f"stores cannot be restored: a transaction has been open for {longest:.0f} s on {told}, longer than "
                    "transaction.timeout.ms; find it with kafka-transactions.sh find-hanging, and abort it"
                )
            time.sleep(_DECIDED_EVERY)

    @cached_property
    def _transaction_seconds(self) -> float:
        return int(producer_config(self._config, self._client_id).get("transaction.timeout.ms", 60_000)) / 1000

    def _open(self, task_id: TaskId, committed: Committed, logs: Mapping[TopicPartition, LogBounds]) -> _OpenTask:
        inputs = [
            TopicPartition(topic, task_id.partition)
            for topic in self._plan.subtopologies[task_id.subtopology].source_topics
            if task_id.partition < self._plan.partitions[topic]
        ]
        shuffled = self._plan.shuffled
        # One without a vector has records left in the topic, from when they were written there: those come first.
        fed = {
            partition: ShuffleInput(sources_of(self._plan, shuffled[partition.topic]), committed[partition])
            for partition in inputs
            if partition.topic in shuffled and is_vector(committed.get(partition))
        }
        self._directory.lock(task_id)
        try:
            had = {p: found for p in inputs if p in committed and (found := ShuffledBefore.of(committed[p])) is not None}
            task = self._open_task(task_id, inputs, had)
            misfits = task.state_manager.misfits(logs, self._committed_input(inputs, committed, fed))
            if misfits:
                task.close_dirty()
                for folder in misfits.values():
                    delete_folder(folder)
                task = self._open_task(task_id, inputs, had)
            task.state_manager.note_logs(logs)
        except BaseException:
            self._directory.unlock(task_id)
            raise
        opened = _OpenTask(task, committed, had, {p: logs[p] for p in self._plan.changelogs(task_id) if p in logs})
        if task_id.partition == PARTITION:
            subtopologies = self._plan.subtopologies
            places = KeyPlaces.of(subtopologies[task_id.subtopology], subtopologies.values(), self._plan.partitions)
            if not places.is_complete:
                self._key_places[task_id] = places
        opened.fed = fed
        opened.source_logs = {p: self._source_logs(behind.sources, committed[p]) for p, behind in fed.items()}
        return opened

    def _committed_input(
        self, inputs: Iterable[TopicPartition], committed: Committed, fed: Mapping[TopicPartition, ShuffleInput]
    ) -> dict[TopicPartition, int]:
        """Up to where what a task reads is committed, of sources behind a shuffle; nothing where stores may be ahead of it."""
        if not self._config.eos_enabled:
            return {}
        own = [partition for partition in inputs if partition.topic not in self._plan.shuffled]
        found = {partition: committed[partition].offset if partition in committed else 0 for partition in own}
        for behind in fed.values():
            for source, at in behind.committed.positions.items():
                found[source] = max(at, found.get(source, at))
        return found

    def _source_logs(self, sources: Sequence[TopicPartition], committed: OffsetAndMetadata) -> Mapping[str, int]:
        """The ids of source topics: those that the driver has compared the vector with, or those that there are now."""
        known = logs_of(committed)
        unknown = {source.topic for source in sources} - known.keys()
        return {**known, **self._admin.topic_ids(unknown)} if unknown else known

    def _open_task(
        self, task_id: TaskId, inputs: Sequence[TopicPartition], had: Mapping[TopicPartition, ShuffledBefore]
    ) -> StreamTask:
        subtopology = self._plan.subtopologies[task_id.subtopology]
        folder = self._directory.get_or_create_directory_for_task(task_id)
        metrics, cache = TaskMetrics(self._metrics, task_id), RecordCache(self._config.total_cache_size)
        environment = TaskEnvironment(self._config, self._clock, metrics, cache, self._plan.partitions.get, self._globals.stores)
        collects = partial(SkippingCollector, had) if had else RecordCollector
        task = StreamTask.create(task_id, subtopology, inputs, folder, environment, collects)
        task.initialize()
        watch_task(metrics, task, cache)
        return task

    def _restore_task(self, task_id: TaskId, opened: _OpenTask, deadline: float, answer: LaneAnswer) -> list[RestoreProgress]:
        state, stores = opened.task.state_manager, self._plan.changelogs(task_id)
        missing = []
        for partition, position in state.changelog_offsets.items():
            log = opened.logs[partition]
            end = log.end
            if state.changelog_as_source(partition):
                committed = opened.committed.get(partition)
                end = min(end, committed.offset) if committed is not None else log.start
            readable = min(end, log.stable_end)
            start = position = max(position, log.start)
            restored = 0
            if end - position > step_sizes.MUCH_TO_RESTORE and partition not in opened.announced:
                opened.announced.add(partition)
                deadline = 0.0  # who waits is told first what there is to do
            while position < readable and time.monotonic() < deadline:
                until = min(readable, position + step_sizes.RESTORE)
                wanted = FetchRange(partition.topic, partition.partition, position, until)
                records = self._restorer.fetch(wanted, readable, state.restores_headers(partition))
                state.restore(partition, records, until)
                restored += len(records)
                position = until
            hidden = readable <= position < end
            if hidden:
                self._waiting_since.setdefault(partition, time.monotonic())
            if restored or position < end or partition in opened.announced:
                store, hidden_from = stores[partition], position if hidden else None
                progress = RestoreProgress(task_id, store, partition, start, position, end, restored, hidden_from)
                if position < end:
                    opened.announced.add(partition)
                    missing.append(progress)
                else:
                    opened.announced.discard(partition)
                    answer.restored += (progress,)
        opened.only_waits = bool(missing) and all(progress.hidden_from is not None for progress in missing)
        if not missing:
            opened.advance_position(opened.committed)
            opened.save_position()
            state.commit()
        return missing

    # -- feed and run --------------------------------------------------------------------------------------------------

    def upstream(self, works: Iterable[UpstreamWork]) -> tuple[dict[TopicPartition, ShuffledBatch], int]:
        """Run tasks before a shuffle; what they have for each target together, and how many records it was made of.

        Where 64 of them have a few records each for 64 targets, a batch for each of both would cost more than all the rest.
        """
        found, consumed = SortedByTarget(self._plan.counted), 0
        for work in works:
            task_id = TaskId(work.subtopology, work.partition)
            task = self._before_shuffle.get(task_id)
            if task is None:
                task = self._before_shuffle[task_id] = self._open_upstream(task_id)
            try:
                consumed += run_upstream(self._plan, work, task, self._taken or self._fetcher, found)
            except BaseException:
                del self._before_shuffle[task_id]
                raise
        return found.batches(), consumed

    def _open_upstream(self, task_id: TaskId) -> StreamTask:
        subtopology = self._plan.subtopologies[task_id.subtopology]
        inputs = [TopicPartition(topic, partition) for topic, partition in upstream_inputs(self._plan, task_id).items()]
        config = self._config.with_values({"max.task.idle.ms": -1})  # everything that was fetched is processed
        metrics = self._metrics_before_shuffle(task_id)
        environment = TaskEnvironment(config, self._clock, metrics, RecordCache(0), self._plan.partitions.get)
        collects = partial(TracingCollector, counted=self._plan.counted)
        task = StreamTask.create(task_id, subtopology, inputs, self._directory.folder, environment, collects)
        task.initialize()
        task.complete_restoration()
        return task

    def _metrics_before_shuffle(self, task_id: TaskId) -> TaskMetrics:
        if task_id not in self._counted_before:
            self._counted_before[task_id] = TaskMetrics(self._metrics, task_id)
        return self._counted_before[task_id]

    def _forget_before_shuffle(self, wanted: Mapping[TaskId, Committed]) -> None:
        """With the last task behind a shuffle those before it go, which are counted where that is; or they run as tasks now."""
        feeding = {
            self._plan.shuffled[p.topic]
            for committed in wanted.values()
            for p, some in committed.items()
            if p.topic in self._plan.shuffled and is_vector(some)
        }
        for known in (self._counted_before, self._before_shuffle):
            for task_id in [task_id for task_id in known if task_id.subtopology not in feeding]:
                gone = known.pop(task_id)
                if isinstance(gone, TaskMetrics):
                    gone.close()

    def take_counts(self, task_id: TaskId, processed: int, seconds: float) -> TaskCounts:
        """What a task before a shuffle has counted here since this was last asked, to be told where it belongs."""
        return self._metrics_before_shuffle(task_id).take_counts(processed, seconds)

    def add_counts(self, counts: TaskCounts) -> None:
        """Take over what a task before a shuffle has counted elsewhere."""
        self._metrics_before_shuffle(counts.task).add_counts(counts)

    def catch_up_globals(self, ends: Mapping[TopicPartition, int]) -> None:
        """Bring the global tables up to the positions of the turn."""
        self._globals.catch_up(ends)

    def global_ends(self) -> dict[TopicPartition, int]:
        """Where global topics end now; empty where there are no global tables."""
        partitions = self._globals.partitions
        return self._admin.log_ends(partitions, self._globals_committed) if partitions else {}

    @contextmanager
    def reading(self, taken: Taken) -> Iterator[None]:
        """Have a turn take its records from what has been followed, instead of fetching them."""
        self._taken = taken
        self._fetcher.look_at_times(taken.columns)
        try:
            yield
        finally:
            self._taken = None

    def own_inputs(self) -> dict[TaskId, list[TopicPartition]]:
        """The partitions that the tasks which run here read themselves."""
        return {
            task_id: [p for p in opened.task.partition_group.partitions if p not in opened.fed]
            for task_id, opened in self.running.items()
        }

    def fed_inputs(self) -> dict[TaskId, dict[TopicPartition, Sequence[TopicPartition]]]:
        """The partitions that a shuffle feeds to the tasks which run here, with their sources."""
        return {task_id: {p: fed.sources for p, fed in opened.fed.items()} for task_id, opened in self.running.items()}

    def fed_positions(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, dict[TopicPartition, int]]:
        """How far each source has been handed to the partitions that a shuffle feeds to some tasks."""
        return {p: dict(fed.positions) for task_id in tasks for p, fed in self.running[task_id].fed.items()}

    def upstream_of(self, source: TopicPartition) -> int:
        """The sub-topology before a shuffle that reads a source."""
        return next(id_ for id_ in self._plan.upstream if source.topic in self._plan.subtopologies[id_].source_topics)

    def fetch(self, work: Mapping[TaskId, TaskWork]) -> int:
        """Read the ranges of all tasks at once and queue the records; returns how many these are."""
        ranges = {TopicPartition(r.topic, r.partition): r for w in work.values() for r in w.ranges}
        fetched = (self._taken or self._fetcher).fetch(list(ranges.values()))
        self.short = self._fetcher.take_short() if isinstance(self._fetcher, LenientFetcher) else {}
        for task_id, task_work in work.items():
            task = self.running[task_id].task
            for wanted in task_work.ranges:
                partition = TopicPartition(wanted.topic, wanted.partition)
                if task_id in self._key_places:
                    self._look_at_keys(task_id, fetched[partition])
                task.add_records(partition, fetched[partition], self._reached(partition, wanted.end))
        return sum(map(len, fetched.values()))

    def _look_at_keys(self, task_id: TaskId, records: RawColumns) -> None:
        """Notice topics whose keys do not lie as those they are joined with; a few keys tell, then nothing is looked at."""
        places = self._key_places[task_id]
        places.look(records.topic, records.keys)
        if places.is_complete:
            del self._key_places[task_id]

    def _reached(self, partition: TopicPartition, end: int) -> int:
        """How far a range was read that was to be read to its end."""
        short = self.short.get(partition)
        return end if short is None else min(end, short.offset)

    def process(
        self,
        task_id: TaskId,
        work: TaskWork,
        fed: Mapping[TopicPartition, ShuffledBatch],
        read: Mapping[TopicPartition, int] = _NOTHING,
        until: float = math.inf,
    ) -> tuple[TaskCommit, int]:
        """Process what the task has, punctuate, and hand out what is to be committed, and how many records were processed.

        `fed` are the records that came through a shuffle, `read` how far its sources were read for it, `until` is when the
        task's time is up.
        """
        opened = self.running[task_id]
        task = opened.task
        started, counted = time.perf_counter(), 0
        if self.short:
            read = {source: self._reached(source, end) for source, end in read.items()}
        for partition in work.fed:
            counted += self._feed(opened, partition, fed.get(partition), _furthest(opened.fed[partition].positions, read))
        unread = {
            TopicPartition(r.topic, r.partition): r.end - self._reached(TopicPartition(r.topic, r.partition), r.end)
            for r in work.ranges
        }
        lags = {partition: lag + unread.get(partition, 0) for partition, lag in work.lags.items()}
        task.update_lags({**lags, **dict.fromkeys(opened.fed, 0)})
        processed = counted + task.process_all(until=until)
        task.metrics.processed(processed, time.perf_counter() - started)
        task.maybe_punctuate_stream_time()
        task.maybe_punctuate_system_time()
        commit = task.prepare_commit()
        return self._with_vectors(opened, work, commit), processed

    def take_punctuations(self) -> tuple[int, float]:
        """How many punctuators have run since this was last asked, and how long they took."""
        share_processing((*(opened.task.metrics for opened in self.running.values()), *self._counted_before.values()))
        return take_punctuations(opened.task.metrics for opened in self.running.values())

    def postponed(self, task_id: TaskId) -> int:
        """How many records are left that there was no time for."""
        task = self.running[task_id].task
        return task.partition_group.num_buffered if task.was_cut_short else 0

    def idle_deadline(self, task_id: TaskId) -> int | None:
        """Until when a task with records waits for those of another partition; None where it does not wait."""
        task = self.running[task_id].task
        return task.partition_group.idle_deadline() if task.has_records_queued else None

    def _feed(
        self, opened: _OpenTask, partition: TopicPartition, batch: ShuffledBatch | None, ends: Mapping[TopicPartition, int]
    ) -> int:
        """Hand over what came for a partition; returns how many records of it were processed on the way."""
        fed = opened.fed[partition]
        number = fed.number
        batch = fed.take(batch, ends)
        if len(batch) and partition.topic in self._plan.counted:
            assert batch.weights is not None
            return opened.task.process_counted(partition, batch.columns(partition, number), batch.weights.tolist(), fed.number)
        if len(batch):
            opened.task.add_records(partition, batch.columns(partition, number), fed.number)
        return 0

    def _with_vectors(self, opened: _OpenTask, work: TaskWork, commit: TaskCommit) -> TaskCommit:
        """The same commit, with vectors in place of the numbers of shuffled records, and what rode along up to there."""
        outputs: list[RecordOrColumns] = []
        for partition, fed in opened.fed.items():
            own = commit.offsets.pop(partition, None)
            if own is not None or partition in work.fed:
                left = len(opened.task.partition_group.queue(partition))
                vector = fed.commit(left, None if own is None else own.metadata)
                commit.offsets[partition] = with_logs(vector, opened.source_logs[partition])
                outputs += fed.take_side_outputs()
        commit.outputs[:0] = outputs
        for partition, had in opened.had.items():
            if partition in commit.offsets:
                commit.offsets[partition] = had.carried(commit.offsets[partition])
        opened.advance_position(commit.offsets)
        return commit

    def take_flow(self) -> Flow | None:
        """What went through the topology since this was last asked, also before a shuffle; None where nobody looks at it.

        Dead letters are logged in any case.
        """
        flow, looked_at = Flow(), bool(self._application.config["application.server"])
        for task in (*(opened.task for opened in self.running.values()), *self._before_shuffle.values()):
            flow.take_dead_letters(task.collector)
            if looked_at:
                flow.take(task.topology.nodes)
        if looked_at:
            flow.take(self._globals.nodes)
            flow.timestamps, self._fetcher.timestamps = self._fetcher.timestamps or [], []
        return flow if looked_at else None

    # -- what readers ask ----------------------------------------------------------------------------------------------

    def folder_of(self, task_id: TaskId) -> Path:
        """Where the files of a task's stores are."""
        return self._globals.folder if task_id == GLOBAL_TASK_ID else self._directory.folder_of_task(task_id)

    def live_store(self, task_id: TaskId, name: str) -> StateStore:
        """The open store of a task that runs."""
        if task_id == GLOBAL_TASK_ID and name in self._globals.stores:
            return self._globals.stores[name]
        opened = self.running.get(task_id)
        store: StateStore | None = None if opened is None else opened.task.state_manager.store(name)
        if store is None:
            raise StateStoreNotAvailableError(f"store {name} of task {task_id} is not open here: it is restored, or has moved")
        return store

    def position_of(self, task_id: TaskId) -> Position:
        """What of the input the stores of a task reflect."""
        opened = self.running.get(task_id)
        return Position() if opened is None else Position.of(opened.position)

    # -- commit and close ----------------------------------------------------------------------------------------------

    def post_commit(self, task_id: TaskId, producer: LaneProducer) -> None:
        """Kafka has the turn: write the stores, with where their changelogs end now."""
        opened = self.running[task_id]
        opened.save_position()
        task = opened.task
        ends = {partition: producer.end_of(partition) for partition in task.state_manager.changelog_offsets}
        task.post_commit({partition: end - 1 for partition, end in ends.items() if end is not None})

    def close_dirty(self) -> None:
        """Forget everything since the last commit."""
        self._waiting_since.clear()
        for task_id in [*self.running, *self._restoring]:
            opened = self.running.pop(task_id, None) or self._restoring.pop(task_id)
            opened.task.close_dirty()
            self._directory.unlock(task_id)
        self._key_places.clear()
        self._before_shuffle.clear()

    def close(self) -> None:
        """Close all tasks, stores and consumers; between turns everything is committed."""
        for task_id in [*self.running, *self._restoring]:
            self._close(task_id)
        self._globals.close()
        self._fetcher.close()
        self.follower.close()
        self._restorer.close()
        self._global_fetcher.close()

    def _close(self, task_id: TaskId) -> None:
        self._key_places.pop(task_id, None)
        opened = self.running.pop(task_id, None) or self._restoring.pop(task_id)
        try:
            opened.task.close_dirty()  # nothing is lost: every turn ends in a commit
        finally:
            self._directory.unlock(task_id)
