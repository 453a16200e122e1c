"""The metrics of one store, as Kafka Streams names them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from penstock.metrics.registry import (
    CACHE_GROUP,
    STATE_GROUP,
    Metrics,
    RecordingLevel,
    Sensor,
    measure_avg,
    measure_max,
    measure_min,
    measure_rate,
)
from penstock.state.layers.rocksdb_metrics import watch_rocksdb
from penstock.state.store import StateStoreContext

_ITERATOR_OPERATIONS = ("range", "all", "prefix-scan", "fetch")


class StoreMetrics:
    """Latencies of a store's calls where the recording level is DEBUG, and always its open iterators.

    Nothing is put around the calls of a store below DEBUG: they cost what they cost without metrics.
    """

    def __init__(self, context: StateStoreContext, scope: str, store_name: str) -> None:
        self._registry: Metrics | None = context.metrics
        self._prefix = f"{context.task_id}.{store_name}.s"
        self._tags = {
            "thread-id": threading.current_thread().name,
            "task-id": str(context.task_id),
            f"{scope}-state-id": store_name,
        }
        self._now_ms = context.current_system_time_ms
        self._context = context
        self.opened: dict[int, int] = {}
        """Since when each open iterator is open, by its id."""
        self._latencies: dict[str, Sensor] = {}
        self._iterator_duration: Sensor | None = None
        if self._registry is not None:
            self._register_iterator_metrics()

    def time_calls(self, store: Any, methods: Sequence[str]) -> None:
        """Measure these methods of a store, if the recording level asks for it, and what RocksDB tells, where it has one."""
        for method in methods:
            sensor = self._latency(method.replace("_", "-"))
            if sensor is not None:
                setattr(store, method, _timed(getattr(store, method), sensor))
        self._watch_ages(store)
        if self._registry is not None:
            watch_rocksdb(store, self.gauge, self._registry.should_record(RecordingLevel.DEBUG))

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Measure how long it takes to open a store, which Kafka Streams calls restore."""
        sensor = self._latency("restore")
        started = time.perf_counter_ns()
        yield
        if sensor is not None:
            sensor.record(time.perf_counter_ns() - started)

    def _watch_ages(self, store: Any) -> None:
        """At TRACE, measure how old the record is with which an entry is put."""
        registry = self._registry
        if registry is None or not registry.should_record(RecordingLevel.TRACE):
            return
        sensor = registry.sensor(f"{self._prefix}.record-e2e-latency", RecordingLevel.TRACE)
        for suffix, measure in (("avg", measure_avg), ("min", measure_min), ("max", measure_max)):
            name = f"record-e2e-latency-{suffix}"
            text = "The end-to-end latency of a record, from its timestamp to when it is put into the store"
            registry.add(sensor, registry.metric_name(name, STATE_GROUP, text, self._tags), measure)
        store.put = self._aged(store.put, sensor)

    def _aged(self, put: Callable[..., Any], sensor: Sensor) -> Callable[..., Any]:
        @wraps(put)
        def aged(*args: Any, **kwargs: Any) -> Any:
            found = put(*args, **kwargs)
            record = self._context.record_context
            if record is not None:
                sensor.record(self._now_ms() - record.timestamp)
            return found

        return aged

    def gauge(self, name: str, description: str, read: Callable[[], Any]) -> None:
        """A metric whose value is asked for when it is read."""
        if self._registry is not None:
            self._registry.add_gauge(self._registry.metric_name(name, STATE_GROUP, description, self._tags), read)

    def iterator_opened(self, operation: str) -> Callable[..., None]:
        """Count an iterator as open until the returned function is called, with whatever."""
        opened = self.opened
        finished = _Finish(opened, self._latencies.get(operation), self._iterator_duration)
        opened[id(finished)] = self._now_ms()
        return finished

    @property
    def times_iterators(self) -> bool:
        """Whether it is measured how long iterators are open, and not only how many are."""
        return "fetch" in self._latencies or self._iterator_duration is not None

    def close(self) -> None:
        """Take the store's metrics out of the registry, and end its iterators."""
        self.opened.clear()
        if self._registry is not None:
            self._registry.remove_with_tags(self._tags)

    def _register_iterator_metrics(self) -> None:
        self.gauge("num-open-iterators", "The current number of iterators on the store", lambda: len(self.opened))
        self.gauge(
            "oldest-iterator-open-since-ms",
            "The UNIX timestamp in milliseconds the oldest still open iterator was created",
            lambda: next(iter(self.opened.values()), 0),
        )
        for operation in _ITERATOR_OPERATIONS:
            self._latency(operation)
        registry = self._registry
        assert registry is not None
        sensor = registry.sensor(f"{self._prefix}.iterator-duration", RecordingLevel.DEBUG)
        if sensor.enabled:
            self._iterator_duration = sensor
            registry.add_avg_and_max(sensor, STATE_GROUP, self._tags, "iterator-duration", "time an iterator was open")

    def _latency(self, operation: str) -> Sensor | None:
        registry = self._registry
        if registry is None:
            return None
        sensor = registry.sensor(f"{self._prefix}.{operation}", RecordingLevel.DEBUG)
        if not sensor.enabled:
            return None
        self._latencies[operation] = sensor
        rate = registry.metric_name(
            f"{operation}-rate", STATE_GROUP, f"The average number of calls to {operation} per second", self._tags
        )
        registry.add(sensor, rate, measure_rate)
        registry.add_avg_and_max(sensor, STATE_GROUP, self._tags, f"{operation}-latency", f"latency of calls to {operation}")
        return sensor


class _Finish:
    __slots__ = ("_duration", "_latency", "_opened", "_started")

    def __init__(self, opened: dict[int, int], latency: Sensor | None, duration: Sensor | None) -> None:
        self._opened = opened
        self._latency = latency
        self._duration = duration
        self._started = 0 if latency is duration else time.perf_counter_ns()  # below DEBUG there is neither

    def __call__(self, _: object = None) -> None:
        if self._opened.pop(id(self), None) is None or self._latency is self._duration:
            return
        elapsed = time.perf_counter_ns() - self._started
        if self._latency is not None:
            self._latency.record(elapsed)
        if self._duration is not None:
            self._duration.record(elapsed)


def _timed(call: Callable[..., Any], sensor: Sensor) -> Callable[..., Any]:
    record = sensor.record
    now = time.perf_counter_ns

    @wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        started = now()
        try:
            return call(*args, **kwargs)
        finally:
            record(now() - started)

    return timed


def hit_ratio_sensor(context: StateStoreContext, store_name: str) -> Sensor | None:
    """What a cache records its hit ratio with; None below DEBUG."""
    registry: Metrics | None = context.metrics
    if registry is None:
        return None
    sensor = registry.sensor(f"{context.task_id}.{store_name}.hit-ratio", RecordingLevel.DEBUG)
    if not sensor.enabled:
        return None
    tags = {
        "thread-id": threading.current_thread().name,
        "task-id": str(context.task_id),
        "record-cache-id": store_name,
    }
    for suffix, measure in (("avg", measure_avg), ("min", measure_min), ("max", measure_max)):
        name = registry.metric_name(f"hit-ratio-{suffix}", CACHE_GROUP, "The cache hit ratio", tags)
        registry.add(sensor, name, measure)
    return sensor
