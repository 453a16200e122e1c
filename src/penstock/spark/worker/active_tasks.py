"""The tasks of a stream thread: opened, restored, given records, committed and closed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from penstock.batches.record_batch import RawBatch
from penstock.clock import SystemClock
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
from penstock.kafka.fetch import MOST_BYTES, FetchRange, LenientFetcher, OffsetOutOfRangeError, RangeFetcher
from penstock.kafka.follow import Taken
from penstock.kafka.log_reader import LogReader
from penstock.kafka.log_transport import LogTransport, log_transport
from penstock.kafka.produce import ThreadProducer
from penstock.log_bounds import LogBounds
from penstock.metrics.registry import Metrics
from penstock.metrics.transfer import MetricsSender
from penstock.operators.joins.lookup_table import LookupTables
from penstock.query.position import Position
from penstock.runtime.collector import RecordCollector
from penstock.runtime.flow import Flow
from penstock.runtime.global_context import GLOBAL_TASK_ID
from penstock.runtime.key_placement import PARTITION, KeyPlacement
from penstock.runtime.offset_metadata import OffsetAndMetadata
from penstock.runtime.task import StreamTask, TaskCommit, TaskEnvironment
from penstock.runtime.task_metrics import TaskMetrics
from penstock.spark.messages import Application, Committed, RestoreProgress, TaskStart, ThreadReport
from penstock.spark.record_block import RecordBlock
from penstock.spark.worker import step_sizes
from penstock.spark.worker.block_progress import processed_rows, with_processed_rows, without_extras
from penstock.spark.worker.global_tables import ThreadGlobalTables
from penstock.spark.worker.history_follower import HistoryFollower
from penstock.spark.worker.repartitioning import expand
from penstock.spark.worker.thread_metrics import share_processing, take_punctuations, watch_task
from penstock.spark.worker.vector_upgrade import ShuffledBefore, SkippingCollector
from penstock.state.cache import RecordCache
from penstock.state.directory import StateDirectory, state_dir_here
from penstock.state.engines.rocksdb_files import delete_folder
from penstock.state.store import StateStore

# While a transaction is open: how often it is looked at, and how long after its timeout it is taken for one that never ends.
# Brokers look for transactions that have timed out every ten seconds.
_DECIDED_EVERY, _DECIDED_AFTER = 0.1, 30.0
# The cache of a task in a backfill, unless the configured one is larger or caches are switched off: it holds the keys of a batch.
_BACKFILL_CACHE = 32 << 20


class _OpenTask:
    """A task with what only its thread knows of it: what was committed, and its changelogs."""

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
        self.position: dict[TopicPartition, int] = {}
        self.announced: set[TopicPartition] = set()
        """Changelogs that somebody knows to be restored."""
        self.only_waits = False
        """Whether all that is left to restore is hidden by open transactions."""
        self.rows: dict[TopicPartition, dict[int, int]] = {}
        """How many rows each block has whose rows wait in the task, by its partition and offset."""
        self.skip = {p: rows for p, some in committed.items() if (rows := processed_rows(some))}
        """Of how many rows of the block at the committed offset the results are committed."""

    @property
    def left(self) -> int:
        """How many changelog records there are still to be restored, at most."""
        offsets = self.task.state_manager.changelog_offsets
        return sum(max(0, log.end - max(log.start, offsets.get(partition, 0))) for partition, log in self.logs.items())

    def advance_position(self, committed: Committed) -> None:
        """Account what is committed to the input that the stores reflect."""
        self.position.update({partition: offset.offset - 1 for partition, offset in committed.items()})

    def save_position(self) -> None:
        """Let the next commit of the stores say what of the input it reflects."""
        self.task.state_manager.set_position(Position.of(self.position).to_json().encode())


class ActiveTasks:
    """Owns the tasks of one thread, and the consumers that feed them."""

    def __init__(self, application: Application, client_id: str) -> None:
        self._application = application
        self._config = application.config
        self._plan = application.plan
        self._client_id = client_id
        self._metrics = Metrics.from_config(self._config)
        self.metrics = MetricsSender(self._metrics)
        consumer_id, restorer_id = f"{client_id}-consumer", f"{client_id}-restore-consumer"
        settings = consumer_config(self._config, consumer_id)
        self._reads_committed = reads_committed(settings)
        reads = self.client_metrics(CONSUMER, consumer_id)
        ends = BatchEnds(partial(self._log_transport, restorer_id))
        self._fetcher = LenientFetcher(settings, metrics=reads, batch_end=ends, most_bytes=MOST_BYTES)
        self._staged = application.staged
        self.follower = HistoryFollower(settings, reads, self._staged)
        restoring = restore_consumer_config(self._config, restorer_id)
        self._restores_committed = reads_committed(restoring)
        self._restorer = ChangelogReader(
            RangeFetcher(restoring, metrics=self.client_metrics(CONSUMER, restorer_id), batch_end=ends),
            partial(self._log_reader, restorer_id),
        )
        self._admin_client: Admin | None = None
        self._waiting_since: dict[TopicPartition, float] = {}
        self._directory = StateDirectory(
            state_dir_here(self._config["state.dir"]),
            self._config["application.id"],
            allow_group_write=self._config["allow.os.group.write.access"],
        )
        settings = global_consumer_config(self._config, client_id)
        self._global_fetcher, committed_only = RangeFetcher(settings, batch_end=ends), reads_committed(settings)
        self._globals_committed = committed_only
        self._globals = ThreadGlobalTables(
            *(application, self._directory, self._global_fetcher, client_id),
            lambda partitions: self._admin.log_bounds(partitions, committed_only),
        )
        self._clock = SystemClock()
        self.lookup_tables = LookupTables()
        self.restoring: dict[TaskId, _OpenTask] = {}
        self.running: dict[TaskId, _OpenTask] = {}
        self._key_placement: dict[TaskId, KeyPlacement] = {}
        self._cache_bytes = self._config.total_cache_size

    def _log_reader(self, client_id: str) -> LogReader:
        return LogReader(self._log_transport(client_id), self._restores_committed)

    def _log_transport(self, client_id: str) -> LogTransport:
        return log_transport(log_reader_config(self._config, client_id), self._admin.leader, self._restores_committed)

    def client_metrics(self, kind: str, client_id: str) -> ClientMetrics:
        """Where a client of this thread tells its statistics."""
        return ClientMetrics(self._metrics, kind, client_id)

    def serve(self) -> None:
        """Let consumers that rest tell their statistics."""
        self._fetcher.serve()
        self.follower.serve()
        self._restorer.serve()

    @property
    def ids(self) -> set[TaskId]:
        """The tasks that are open here, restored or not."""
        return {*self.running, *self.restoring}

    # -- open ----------------------------------------------------------------------------------------------------------

    def own(self, wanted: Mapping[TaskId, Committed]) -> list[TaskId]:
        """Close the tasks that are not wanted; open those that are missing, and return these."""
        for task_id in [t for t in (*self.running, *self.restoring) if t not in wanted]:
            self._close(task_id)
        self._globals.open()
        new = [task_id for task_id in wanted if task_id not in self.running and task_id not in self.restoring]
        logs = self._logs(new)
        for task_id in new:
            self.restoring[task_id] = self._open(task_id, wanted[task_id], logs)
        return new

    def enlarge_caches(self, enlarged: bool) -> None:
        """Give tasks the caches of a backfill, or those that are configured; called between batches.

        Nothing in a cache is dirty then, so a cache that becomes smaller forwards nothing.
        """
        configured = self._config.total_cache_size
        size = max(configured, _BACKFILL_CACHE) if enlarged and configured else configured
        if size != self._cache_bytes:
            self._cache_bytes = size
            for opened in (*self.running.values(), *self.restoring.values()):
                opened.task.context.cache.resize(size)

    def repartition_ends(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, int]:
        """Where the repartition partitions end that tasks read or write.

        Offsets of the tasks are known, so whoever had them before has written all that it will ever write.
        """
        topics, tasks = self._plan.repartition_topics, list(tasks)
        partitions = {p for task in tasks for p in self._plan.inputs(task) if p.topic in topics}
        written = {topic for task in tasks for topic in self._plan.subtopologies[task.subtopology].sink_topics}
        partitions |= {TopicPartition(t, p) for t in written & topics for p in range(self._plan.partitions[t])}
        return self._admin.log_ends(partitions, False) if partitions else {}

    @property
    def _admin(self) -> Admin:
        self._admin_client = self._admin_client or Admin(admin_config(self._config, self._client_id))
        return self._admin_client

    def _logs(self, tasks: Iterable[TaskId]) -> dict[TopicPartition, LogBounds]:
        """The logs of all changelogs of tasks."""
        changelogs = [p for task_id in tasks for p in self._plan.changelogs(task_id)]
        return self._admin.log_bounds(changelogs, self._restores_committed) if changelogs else {}

    def restore(self, deadline: float, report: ThreadReport) -> None:
        """Bring stores up to the end of their changelogs until the deadline; tasks that are done go to work.

        Those with the least left come first: they work while their neighbours are restored.
        """
        self._await_decisions(deadline)
        for task_id, opened in sorted(self.restoring.items(), key=lambda entry: entry[1].left):
            missing = self._restore_task(task_id, opened, deadline, report)
            if missing:
                report.restoring += tuple(missing)
                continue
            opened.task.complete_restoration({p: self._as_position(p, c) for p, c in opened.committed.items()})
            del self.restoring[task_id]
            self.running[task_id] = opened
        if not self.restoring:
            self._restorer.rest()
        elif report.restoring:
            self._expect_next(report.restoring)

    def _as_position(self, partition: TopicPartition, committed: OffsetAndMetadata) -> OffsetAndMetadata:
        """What a task understands of a commit: its position, also one in history, and times."""
        staged = self._staged.get(partition)
        offset = committed.offset if staged is None else staged.position(partition, committed)
        return without_extras(committed)._replace(offset=offset)

    def start_positions(self, start: TaskStart) -> dict[TopicPartition, int]:
        """Where the partitions of a task are read from: within history that is left, or in the topic."""
        return {
            p: at if (staged := self._staged.get(p)) is None else staged.position(p, start.committed.get(p))
            for p, at in start.offsets.items()
        }

    def _expect_next(self, restoring: Sequence[RestoreProgress]) -> None:
        """Begin to fetch what the next call restores first: it comes while the driver hears how far this one got."""
        first = min(self.restoring.items(), key=lambda entry: entry[1].left)[0]
        opened, left = self.restoring[first], sum(progress.end - progress.position for progress in restoring)
        for progress in restoring:
            if progress.task_id == first and progress.hidden_from is None:
                until = min(progress.end, opened.logs[progress.partition].stable_end)
                headers = opened.task.state_manager.restores_headers(progress.partition)
                self._restorer.expect(FetchRange(*progress.partition, progress.position, until), headers, left)
                return

    def _await_decisions(self, deadline: float) -> None:
        """Where all that is missing is hidden by open transactions, wait until one is decided.

        A turn that was under way when its thread died has left it open. A thread that is opened again ends its own; that of
        another instance is ended by the brokers when it times out.
        """
        restored = {partition for opened in self.restoring.values() for partition in opened.logs}
        hidden = {partition: since for partition, since in self._waiting_since.items() if partition in restored}
        self._waiting_since = dict(hidden)
        while hidden:
            stable = self._admin.log_ends(hidden, True)
            for opened in self.restoring.values():
                for partition in hidden.keys() & opened.logs.keys():
                    if stable[partition] > opened.logs[partition].stable_end:
                        opened.logs[partition] = opened.logs[partition]._replace(stable_end=stable[partition])
                        self._waiting_since.pop(partition, None)
            decided, others = len(self._waiting_since) < len(hidden), any(not o.only_waits for o in self.restoring.values())
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
        self._directory.lock(task_id)
        try:
            had = {p: found for p in inputs if p in committed and (found := ShuffledBefore.of(committed[p])) is not None}
            task = self._open_task(task_id, inputs, had)
            misfits = task.state_manager.misfits(logs, self._committed_input(inputs, committed))
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
            places = KeyPlacement.of(subtopologies[task_id.subtopology], subtopologies.values(), self._plan.partitions)
            if not places.is_complete:
                self._key_placement[task_id] = places
        return opened

    def _committed_input(self, inputs: Iterable[TopicPartition], committed: Committed) -> dict[TopicPartition, int]:
        """Up to where what a task reads is committed; nothing under at-least-once, where stores may be ahead of it."""
        if not self._config.eos_enabled:
            return {}
        return {partition: committed[partition].offset if partition in committed else 0 for partition in inputs}

    def _open_task(
        self, task_id: TaskId, inputs: Sequence[TopicPartition], had: Mapping[TopicPartition, ShuffledBefore]
    ) -> StreamTask:
        subtopology = self._plan.subtopologies[task_id.subtopology]
        folder = self._directory.get_or_create_directory_for_task(task_id)
        metrics, cache = TaskMetrics(self._metrics, task_id), RecordCache(self._cache_bytes)
        environment = TaskEnvironment(
            *(self._config, self._clock, metrics, cache, self._plan.partitions.get, self._globals.stores, self.lookup_tables)
        )
        collects = partial(SkippingCollector, had) if had else RecordCollector
        task = StreamTask.create(task_id, subtopology, inputs, folder, environment, collects)
        task.collector.arrow_topics = self._plan.repartition_topics
        task.initialize()
        watch_task(metrics, task, cache)
        return task

    def _restore_task(self, task_id: TaskId, opened: _OpenTask, deadline: float, report: ThreadReport) -> list[RestoreProgress]:
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
                records, until = self._restorer.fetch(wanted, readable, state.restores_headers(partition))
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
                    report.restored += (progress,)
        opened.only_waits = bool(missing) and all(progress.hidden_from is not None for progress in missing)
        if not missing:
            opened.advance_position(opened.committed)
            opened.save_position()
            state.commit()
        return missing

    # -- give records and process --------------------------------------------------------------------------------------

    def catch_up_globals(self, ends: Mapping[TopicPartition, int]) -> None:
        """Bring the global tables up to these ends."""
        self._globals.catch_up(ends)

    def global_ends(self) -> dict[TopicPartition, int]:
        """Where global topics end now; empty where there are no global tables."""
        partitions = self._globals.partitions
        return self._admin.log_ends(partitions, self._globals_committed) if partitions else {}

    def inputs(self) -> dict[TaskId, list[TopicPartition]]:
        """The partitions that each task reads which works."""
        return {task_id: list(opened.task.partition_group.partitions) for task_id, opened in self.running.items()}

    def full_partitions(self, most: int) -> frozenset[TopicPartition]:
        """The partitions of which more records than this are queued."""
        groups = [opened.task.partition_group for opened in self.running.values()]
        full = [group for group in groups if group.num_buffered > most]
        return frozenset(p for group in full for p in group.partitions if len(group.queue(p)) > most)

    def add(self, task_id: TaskId, partition: TopicPartition, raw: RawBatch, next_offset: int) -> int:
        """Queue what was read of a partition, or process it where it is only counted; returns how many of it were processed."""
        if task_id in self._key_placement:
            self._look_at_keys(task_id, raw)
        opened = self.running[task_id]
        if partition.topic not in self._plan.repartition_topics:
            opened.task.add_records(partition, raw, next_offset)
            return 0
        processed = 0
        nothing = RawBatch(*partition, [], [], [], [])
        nothing.unreadable = raw.unreadable
        opened.task.add_records(partition, nothing, next_offset)
        for part, offset in expand(raw, partition.topic in self._plan.takes_counts):
            if isinstance(part, RawBatch):
                opened.task.add_records(partition, part, next_offset)
                continue
            skip = opened.skip.pop(partition, None)
            if skip is not None and skip[0] == offset:
                part = part.slice(min(skip[1], len(part)), len(part))
            opened.rows.setdefault(partition, {})[offset] = len(part) + (skip[1] if skip and skip[0] == offset else 0)
            processed += self.add_block(task_id, partition, part, [offset] * len(part), next_offset)
        return processed

    def add_block(
        self, task_id: TaskId, partition: TopicPartition, block: RecordBlock, offsets: Sequence[int], next_offset: int
    ) -> int:
        """Queue the rows of a block, or count them where they stand for many; returns how many were processed."""
        task, processed = self.running[task_id].task, 0
        if not len(block):
            return 0
        if block.weights is None:
            task.add_records(partition, block.columns(partition, offsets), next_offset)
            return 0
        while task.has_records_queued:  # rows of the same partition that came one by one come first
            processed += task.process_all()
        columns = block.columns(partition, offsets)
        return processed + task.process_counted(partition, columns, block.weights.tolist(), next_offset)

    def read_directly(self, partitions: Mapping[TopicPartition, int], most: int, until: Mapping[TopicPartition, int]) -> Taken:
        """Read partitions that the follower cannot read on: batches that cannot be read are skipped, and told with the records.

        Of a partition in `until` nothing is read from that offset on.

        Raises OffsetOutOfRangeError where a log does not have the position, and what the brokers say of a topic that is gone.
        """
        ends = self._admin.log_ends(partitions, self._reads_committed)
        limits = {p: min(end, until.get(p, end)) for p, end in ends.items()}
        ranges = [FetchRange(*p, at, min(limits[p], at + most)) for p, at in partitions.items() if limits[p] > at]
        beyond = {p: at for p, at in partitions.items() if ends[p] < at}
        if beyond:
            whole = self._admin.log_ends(beyond, False)
            gone = [f"{p} ends at {whole[p]} and was read up to {at}" for p, at in beyond.items() if whole[p] < at]
            if gone:
                raise OffsetOutOfRangeError(f"offsets are out of range: {', '.join(gone)}")
        found = self._fetcher.fetch(ranges)
        self._fetcher.rest()
        short = self._fetcher.take_short()
        if gone := [f"{p} at offset {at.offset}" for p, at in short.items() if at.out_of_range]:
            raise OffsetOutOfRangeError(f"offsets are out of range: {', '.join(gone)}")
        reached = {TopicPartition(r.topic, r.partition): r.end for r in ranges} | {p: at.offset for p, at in short.items()}
        done = {p: FetchRange(*p, at, reached[p]) for p, at in partitions.items() if reached.get(p, at) > at}
        return Taken(done, {p: found[p] for p in done})

    def _look_at_keys(self, task_id: TaskId, records: RawBatch) -> None:
        """Notice topics whose keys do not lie as those they are joined with; a few keys tell, then nothing is looked at."""
        places = self._key_placement[task_id]
        places.look(records.topic, records.keys)
        if places.is_complete:
            del self._key_placement[task_id]

    def process(self, task_id: TaskId, lags: Mapping[TopicPartition, int], until: float = math.inf) -> int:
        """Process what a task has queued and call its punctuators; returns how many records were processed.

        `lags` is how many records brokers still have of its partitions; `until` is when the task's time is up.
        """
        task, started = self.running[task_id].task, time.perf_counter()
        task.update_lags(lags)
        if self._staged:
            group = task.partition_group
            group.awaited = frozenset(filter(self.follower.reads_history, group.partitions))
        processed = task.process_all(until=until)
        task.metrics.processed(processed, time.perf_counter() - started)
        task.maybe_punctuate_stream_time()
        task.maybe_punctuate_system_time()
        return processed

    def prepare_commit(self, task_id: TaskId) -> TaskCommit:
        """What a task wants to be written and committed."""
        opened = self.running[task_id]
        commit = opened.task.prepare_commit()
        for partition, had in opened.had.items():
            if partition in commit.offsets:
                commit.offsets[partition] = had.carried(commit.offsets[partition])
        for partition, committed in commit.offsets.items():
            staged = self._staged.get(partition)
            commit.offsets[partition] = (
                self._with_rows(opened, partition, committed) if staged is None else staged.committed(committed)
            )
        opened.advance_position(commit.offsets)
        return commit

    @staticmethod
    def _with_rows(opened: _OpenTask, partition: TopicPartition, committed: OffsetAndMetadata) -> OffsetAndMetadata:
        """The same commit, with how many rows of the block at its offset were processed."""
        rows = opened.rows.get(partition)
        if not rows:
            return committed
        opened.rows[partition] = rows = {offset: count for offset, count in rows.items() if offset >= committed.offset}
        if committed.offset not in rows:
            return committed
        queued = opened.task.partition_group.queue(partition).count_at_head()
        return with_processed_rows(committed, rows[committed.offset] - queued)

    def take_punctuations(self) -> tuple[int, float]:
        """How many punctuators have run since this was last asked, and how long they took."""
        share_processing(opened.task.metrics for opened in self.running.values())
        return take_punctuations(opened.task.metrics for opened in self.running.values())

    def idle_deadline(self, task_id: TaskId) -> int | None:
        """Until when a task with records waits for those of another partition; None where it does not wait."""
        task = self.running[task_id].task
        return task.partition_group.idle_deadline() if task.has_records_queued else None

    def take_flow(self) -> Flow | None:
        """What went through the topology since this was last asked; None where nobody looks at it.

        Dead letters are logged in any case.
        """
        flow, looked_at = Flow(), bool(self._application.config["application.server"])
        for task in [opened.task for opened in self.running.values()]:
            flow.take_dead_letters(task.collector)
            if looked_at:
                flow.take(task.topology.nodes)
        if looked_at:
            flow.take(self._globals.nodes)
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

    def post_commit(self, task_id: TaskId, producer: ThreadProducer) -> None:
        """Kafka has the batch: write the stores, with where their changelogs end now."""
        opened = self.running[task_id]
        opened.save_position()
        task = opened.task
        ends = {partition: producer.end_of(partition) for partition in task.state_manager.changelog_offsets}
        task.post_commit({partition: end - 1 for partition, end in ends.items() if end is not None})

    def close_dirty(self) -> None:
        """Forget everything since the last commit."""
        self._waiting_since.clear()
        for task_id in [*self.running, *self.restoring]:
            opened = self.running.pop(task_id, None) or self.restoring.pop(task_id)
            opened.task.close_dirty()
            self._directory.unlock(task_id)
        self._key_placement.clear()

    def close(self) -> None:
        """Close all tasks, stores and consumers; between batches everything is committed."""
        for task_id in [*self.running, *self.restoring]:
            self._close(task_id)
        self._globals.close()
        self._fetcher.close()
        self.follower.close()
        self._restorer.close()
        self._global_fetcher.close()

    def _close(self, task_id: TaskId) -> None:
        self._key_placement.pop(task_id, None)
        opened = self.running.pop(task_id, None) or self.restoring.pop(task_id)
        try:
            opened.task.close_dirty()  # nothing is lost: every batch ends in a commit
        finally:
            self._directory.unlock(task_id)
