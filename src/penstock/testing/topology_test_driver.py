"""Test a topology without a broker or Spark, with the real StreamTask."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, overload

from penstock.batches.record_batch import records_of
from penstock.clock import ManualClock, SystemClock
from penstock.config.streams_config import StreamsConfig
from penstock.errors import NoSuchElementError, TopologyError
from penstock.handlers import LogAndContinueExceptionHandler
from penstock.ids import TaskId, TopicPartition
from penstock.metrics.registry import Metrics
from penstock.pickling import check_picklable
from penstock.processor import Duration
from penstock.record import FixedKeyRecord, Headers, ProducedRecord, RawRecord, Record
from penstock.runtime.collector import RecordCollector
from penstock.runtime.global_state import GLOBAL_TASK_ID, GlobalStateUpdateTask
from penstock.runtime.task import StreamTask, TaskCommit, TaskEnvironment
from penstock.runtime.task_metrics import TaskMetrics
from penstock.serdes.serde import Serde
from penstock.state.cache import RecordCache
from penstock.testing.driver_dataframes import DriverDataFrames
from penstock.testing.driver_stores import DriverStores
from penstock.testing.input_topic import TestInputTopic, serialized
from penstock.testing.output_topic import TestOutputTopic, deserialized
from penstock.testing.records import Timestamp, as_timestamp
from penstock.testing.shared_variables import SharedVariables
from penstock.topology.checks import check_before_start
from penstock.topology.specs import GlobalTopology, Subtopology
from penstock.topology.topology import Topology, required_topology
from penstock.windows import to_ms

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)

_PARTITION = 0
_TASK_ID = TaskId(0, _PARTITION)

_DEFAULTS = {
    "application.id": "dummy-topology-test-driver-app-id",
    "bootstrap.servers": "dummy-bootstrap-host:0",
    # In production, results of left and outer joins and of closed windows wait up to a second of wall-clock time.
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}


class AnyPartitionCollector(RecordCollector):
    """Accepts records for any partition: partitioners get a count of one and may still choose another, as in Kafka Streams."""

    def _check_partition(self, topic: str, partition: int, count: int) -> None:
        if partition < 0:
            super()._check_partition(topic, partition, count)


class TopologyTestDriver(DriverStores):
    """Processes each piped record completely, through all sub-topologies, before the call returns.

    Topics have one partition. A partitioner of the topology may choose any, which `read_record` shows. The wall clock starts
    at the current time, or at `initial_wall_clock_time`, and only `advance_wall_clock_time` moves it. Close the driver, or
    use it as a context manager.

    Every record is followed by a commit, so caches hold nothing back. With `commit_every_record=False` the driver commits
    when the test calls `commit()`, when a processor requests it, and when it is closed. Until then caches hold updates back,
    and forward them only when they are full.

    Functions that could not be sent to Spark's workers are refused with their line. When the driver closes, it warns of
    changed variables that functions of the topology share with the test (`SharedVariableWarning`).

    >>> from penstock.serdes.serde import Serdes
    >>> topology = Topology()
    >>> topology = topology.add_source("in", "words").add_sink("out", "copies", "in")
    >>> string = Serdes.string()
    >>> with TopologyTestDriver(topology, {"default.key.serde": string, "default.value.serde": string}) as driver:
    ...     driver.create_input_topic("words", string, string).pipe_input("key", "hello", timestamp=5)
    ...     driver.create_output_topic("copies", string, string).read_record()
    Record(key='key', value='hello', timestamp=5, headers=())
    """

    __test__ = False  # not a test class of pytest

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | Mapping[str, Any] | None = None,
        initial_wall_clock_time: int | datetime | None = None,
        commit_every_record: bool = True,
    ) -> None:
        required_topology(topology, "TopologyTestDriver")
        given = config.originals if isinstance(config, StreamsConfig) else (config or {})
        registry = topology.internal_topology_builder.registry
        check_picklable(registry, given)
        self._shared = SharedVariables(registry.nodes.values())
        self._state_dir = Path(tempfile.mkdtemp(prefix="penstock-test-driver-"))
        self._remove_state_dir = weakref.finalize(self, shutil.rmtree, self._state_dir, ignore_errors=True)
        self._config = StreamsConfig.partial({**_DEFAULTS, **given, "state.dir": str(self._state_dir)})
        started = SystemClock().now_ms() if initial_wall_clock_time is None else as_timestamp(initial_wall_clock_time)
        self._clock = ManualClock(started)
        check_before_start(registry, self._config["application.id"])
        self._metrics = Metrics.from_config(self._config, self._clock)
        self._cache = RecordCache(self._config.total_cache_size)
        self._outputs: dict[str, deque[ProducedRecord]] = {}
        self._input_offsets: dict[TopicPartition, int] = {}
        self._output_offsets: dict[TopicPartition, int] = {}
        self._commit_every_record = commit_every_record
        self._closed = False

        builder = topology.internal_topology_builder.rewrite_topology(self._config)
        self._store_names = (*builder.registry.stores, *builder.registry.global_stores)
        self._plan = _whole(topology)
        self._global_plan = builder.global_topology()
        self._partitions = {topic: TopicPartition(topic, _PARTITION) for topic in self._plan.source_topics}
        self._dataframes = DriverDataFrames(registry, started)
        self._global_task = self._open_global_task(self._global_plan)
        self._task = self._open_task(self._plan)

    def _open_global_task(self, plan: GlobalTopology | None) -> GlobalStateUpdateTask | None:
        if plan is None:
            return None
        metrics = TaskMetrics(self._metrics, GLOBAL_TASK_ID)
        folder = self._state_dir / "global"
        handler = LogAndContinueExceptionHandler()
        task = GlobalStateUpdateTask(plan, self._config, folder, self._clock, metrics, self._cache, handler)
        task.initialize(TopicPartition(topic, _PARTITION) for topic in dict.fromkeys(plan.store_to_topic.values()))
        task.complete_restoration()
        return task

    def _open_task(self, plan: Subtopology) -> StreamTask | None:
        if not self._partitions:
            return None
        metrics = TaskMetrics(self._metrics, _TASK_ID)
        global_stores = {} if self._global_task is None else self._global_task.state_manager.stores
        inputs = tuple(self._partitions.values())
        folder = self._state_dir / str(_TASK_ID)
        environment = TaskEnvironment(
            *(self._config, self._clock, metrics, self._cache, lambda topic: 1, global_stores, self._dataframes.tables)
        )
        task = StreamTask.create(_TASK_ID, plan, inputs, folder, environment, AnyPartitionCollector)
        task.initialize()
        self._prepare(task)
        for partition in inputs:
            task.update_next_offset(partition, self._input_offsets.get(partition, 0))
        return task

    def _prepare(self, task: StreamTask) -> None:
        """Skip restoration: the stores of a test start empty."""
        task.complete_restoration()

    # Topics

    @overload
    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde[K] | type[K],
        value_serde: Serde[V] | type[V],
        start_timestamp: Timestamp | None = None,
        auto_advance: Duration | None = None,
    ) -> TestInputTopic[K, V]: ...

    @overload
    def create_input_topic(
        self,
        topic: str,
        key_serde: Any,
        value_serde: Any,
        start_timestamp: Timestamp | None = None,
        auto_advance: Duration | None = None,
    ) -> TestInputTopic[Any, Any]: ...

    def create_input_topic(
        self,
        topic: str,
        key_serde: Any,
        value_serde: Any,
        start_timestamp: Timestamp | None = None,
        auto_advance: Duration | None = None,
    ) -> TestInputTopic[Any, Any]:
        """Return a topic to write to. By default its time starts at the wall clock's time and does not advance."""
        start = self._clock.now_ms() if start_timestamp is None else start_timestamp
        return TestInputTopic(self, topic, key_serde, value_serde, start, 0 if auto_advance is None else auto_advance)

    @overload
    def create_output_topic(
        self, topic: str, key_serde: Serde[K] | type[K], value_serde: Serde[V] | type[V]
    ) -> TestOutputTopic[K, V]: ...

    @overload
    def create_output_topic(self, topic: str, key_serde: Any, value_serde: Any) -> TestOutputTopic[Any, Any]: ...

    def create_output_topic(self, topic: str, key_serde: Any, value_serde: Any) -> TestOutputTopic[Any, Any]:
        """Return a topic to read from: any output, changelog or repartition topic."""
        return TestOutputTopic(self, topic, key_serde, value_serde)

    def produced_topic_names(self) -> frozenset[str]:
        """Return the topics with output."""
        return frozenset(self._outputs)

    @overload
    def pipe_record(self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None: ...

    @overload
    def pipe_record(
        self,
        topic: str,
        record: FixedKeyRecord[K, V],
        key_serializer: Any,
        value_serializer: Any,
        time: Timestamp | None = None,
    ) -> None: ...

    def pipe_record(self, topic: str, *arguments: Any, **named: Any) -> None:
        """Write raw bytes, or a record with its serializers, to an input topic, and process it completely.

        `time` replaces the record's timestamp. A `TestRecord` without a timestamp needs it.
        """
        typed = "record" in named or (arguments and isinstance(arguments[0], FixedKeyRecord))
        (self._pipe_typed if typed else self._pipe_raw)(topic, *arguments, **named)

    def _pipe_typed(
        self, topic: str, record: Any, key_serializer: Any, value_serializer: Any, time: Timestamp | None = None
    ) -> None:
        timestamp = record.timestamp if time is None else as_timestamp(time)
        if timestamp is None:
            raise ValueError(f"the TestRecord for topic {topic} has no timestamp: give it one, or give `time`")
        self._pipe_raw(topic, timestamp, *serialized(topic, record, key_serializer, value_serializer))

    def _pipe_raw(self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers = ()) -> None:
        partition = self._input_partition(topic)
        is_global = self._is_global(topic)
        if partition is None and not is_global:
            known = sorted({*self._partitions, *(self._global_plan.store_to_topic.values() if self._global_plan else ())})
            raise TopologyError(f"Unknown topic: {topic}. The topology reads: {', '.join(known) or 'nothing'}.")
        if partition is not None:
            with self._keeping_outputs():
                self._enqueue(partition, RawRecord(topic, _PARTITION, 0, timestamp, key, value, headers))
                self._complete_all_processable_work()
        if is_global:
            self._update_global(RawRecord(topic, _PARTITION, 0, timestamp, key, value, headers))

    @overload
    def read_record(self, topic: str) -> ProducedRecord: ...

    @overload
    def read_record(self, topic: str, key_deserializer: Any, value_deserializer: Any) -> Record[Any, Any]: ...

    def read_record(
        self, topic: str, key_deserializer: Any = None, value_deserializer: Any = None
    ) -> ProducedRecord | Record[Any, Any]:
        """Return the next record of an output topic, as bytes, or deserialized if deserializers are given."""
        raw = self._read_raw(topic)
        if key_deserializer is None and value_deserializer is None:
            return raw
        return deserialized(raw, key_deserializer, value_deserializer)

    def _read_raw(self, topic: str) -> ProducedRecord:
        records = self._outputs.get(topic)
        if records is None:
            raise NoSuchElementError(
                f"Uninitialized topic: {topic}. Nothing has been written to it; written so far: "
                f"{', '.join(sorted(self._outputs)) or 'nothing'}."
            )
        if not records:
            raise NoSuchElementError(f"Empty topic: {topic}. All its records have been read.")
        return records.popleft()

    def queue_size(self, topic: str) -> int:
        """Return the number of unread records of an output topic."""
        return len(self._outputs.get(topic, ()))

    # Time

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """Advance the wall clock, and run due punctuators."""
        self._clock.advance(to_ms(advance, "advance"))
        self._dataframes.refresh(self._clock.now_ms())
        if self._task is not None:
            with self._keeping_outputs():
                self._task.maybe_punctuate_system_time()
                self._maybe_commit(self._task)
                self._complete_all_processable_work()

    def commit(self) -> None:
        """Flush the caches, commit, and process and commit the resulting records of repartition topics."""
        task = self._task
        if task is None:
            return
        with self._keeping_outputs():
            self._commit(task)
            while task.has_records_queued and task.is_processable(self._clock.now_ms()):
                self._complete_all_processable_work()
                self._commit(task)

    def metrics(self) -> Mapping[Any, Any]:
        """Return all metrics by name."""
        return self._metrics.metrics()

    # Processing

    @contextmanager
    def _keeping_outputs(self) -> Iterator[None]:
        """Keep outputs that were written before an error, such as a dead letter."""
        try:
            yield
        except Exception:
            assert self._task is not None
            self._keep(self._task.prepare_outputs())
            raise

    def _complete_all_processable_work(self) -> None:
        task = self._task
        if task is None:
            return
        self._capture(task.prepare_outputs())
        # An empty topic gets no further records, so the task waits for it only as long as max.task.idle.ms.
        task.update_lags(dict.fromkeys(self._partitions.values(), 0))
        while task.has_records_queued and task.process(self._clock.now_ms()):
            task.maybe_punctuate_stream_time()
            self._maybe_commit(task)
        if task.has_records_queued:
            _log.info(
                "Due to the max.task.idle.ms configuration, there are currently some records that cannot be processed. "
                "Advancing wall-clock time or enqueuing records on the empty topics will allow to process more."
            )

    def _maybe_commit(self, task: StreamTask) -> None:
        if self._commit_every_record or task.commit_requested:
            self._commit(task)
        else:
            self._capture(task.prepare_outputs())

    def _commit(self, task: StreamTask) -> None:
        commit = task.prepare_commit()
        self._keep(commit)
        task.post_commit({partition: offset - 1 for partition, offset in self._output_offsets.items()})
        self._feed_back(commit)

    def _capture(self, commit: TaskCommit) -> None:
        self._keep(commit)
        self._feed_back(commit)

    def _keep(self, commit: TaskCommit) -> None:
        for records in (commit.outputs, commit.changelogs):
            for record in records_of(records):
                self._outputs.setdefault(record.topic, deque()).append(record)
                partition = TopicPartition(record.topic, record.partition or _PARTITION)
                self._output_offsets[partition] = self._output_offsets.get(partition, 0) + 1

    def _feed_back(self, commit: TaskCommit) -> None:
        """Enqueue records of repartition topics and of other topics that the topology reads."""
        for records in (commit.outputs, commit.changelogs):
            for topic, _, key, value, timestamp, headers in records_of(records):
                partition = self._input_partition(topic)
                if partition is not None:
                    self._enqueue(partition, RawRecord(topic, _PARTITION, 0, timestamp, key, value, headers))
                if self._is_global(topic):
                    self._update_global(RawRecord(topic, _PARTITION, 0, timestamp, key, value, headers))

    def _enqueue(self, partition: TopicPartition, record: RawRecord) -> None:
        assert self._task is not None
        self._task.add_records(partition, [record._replace(offset=self._next_offset(partition))])

    def _update_global(self, record: RawRecord) -> None:
        assert self._global_task is not None
        self._global_task.update(record._replace(offset=self._next_offset(TopicPartition(record.topic, _PARTITION))))
        self._global_task.flush_state()

    def _next_offset(self, partition: TopicPartition) -> int:
        offset = self._input_offsets.get(partition, 0)
        self._input_offsets[partition] = offset + 1
        return offset

    def _input_partition(self, topic: str) -> TopicPartition | None:
        found = self._partitions.get(topic)
        if found is None:
            for pattern in self._plan.source_patterns:
                if pattern.fullmatch(topic) and not self._is_global(topic):
                    return self._partitions[pattern.pattern]
        return found

    def _is_global(self, topic: str) -> bool:
        return self._global_plan is not None and topic in self._global_plan.store_to_topic.values()

    # Closing

    def close(self) -> None:
        """Close the processors and stores, and delete the state."""
        if self._closed:
            return
        self._closed = True
        self._shared.warn_of_changes()
        try:
            if self._task is not None:
                try:
                    self._task.suspend()
                    self._commit(self._task)
                    self._task.close_clean()
                finally:
                    self._task.close_dirty()
        finally:
            try:
                if self._global_task is not None:
                    self._global_task.close()
            finally:
                self._config.close_default_serdes()
                self._remove_state_dir()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole(topology: Topology) -> Subtopology:
    """Return all sub-topologies as one task. A pattern stands for one topic with the pattern's text as its name."""
    builder = topology.internal_topology_builder
    patterns = builder.build_topology().source_patterns
    return builder.build_topology(matched_topics={pattern: (pattern.pattern,) for pattern in patterns})
