"""The registry of an application's metrics, under Kafka Streams' names.

Recording adds to plain attributes; rates, averages and maxima are computed when they are read. A sensor sums up the current
sample of `metrics.sample.window.ms`. `Metrics.roll` (called once per batch and by every reading) stores full samples and
keeps the last `metrics.num.samples`.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.clock import Clock, SystemClock

_NO_TAGS: Final[Mapping[str, str]] = {}

CLIENT_GROUP: Final = "stream-metrics"
THREAD_GROUP: Final = "stream-thread-metrics"
TASK_GROUP: Final = "stream-task-metrics"
PROCESSOR_NODE_GROUP: Final = "stream-processor-node-metrics"
TOPIC_GROUP: Final = "stream-topic-metrics"
STATE_GROUP: Final = "stream-state-metrics"
CACHE_GROUP: Final = "stream-record-cache-metrics"


class RecordingLevel(enum.IntEnum):
    """The level of detail. A sensor above the configured level records nothing."""

    INFO = 0
    DEBUG = 1
    TRACE = 2

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RecordingLevel:
        """Return the level of `metrics.recording.level`.

        >>> RecordingLevel.of({"metrics.recording.level": "debug"}).name
        'DEBUG'
        """
        return cls[str(config.get("metrics.recording.level") or "INFO").upper()]


@dataclass(frozen=True)
class MetricName:
    """A metric's name, group and tags, which identify it, and its description.

    >>> MetricName("dropped-records-total", "stream-task-metrics", tags={"task-id": "0_0"}).tags["task-id"]
    '0_0'
    """

    name: str
    group: str
    description: str = field(default="", compare=False)
    tags: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.group, frozenset(self.tags.items())))


class Metric(NamedTuple):
    """A metric's name and its value at one time."""

    metric_name: MetricName
    metric_value: Any


class _Sample(NamedTuple):
    start_ms: int
    times: int
    total: float
    maximum: float
    minimum: float


Measure = Callable[["Sensor", int], float]


class Sensor:
    """Counts events and sums up their values.

    >>> sensor = Metrics().sensor("process")
    >>> sensor.record(); sensor.record(3)
    >>> sensor.count, sensor.total
    (2, 4)
    """

    __slots__ = (
        "_count",
        "_maximum",
        "_minimum",
        "_parents",
        "_past_count",
        "_past_total",
        "_samples",
        "_start_ms",
        "_total",
        "name",
    )

    def __init__(self, name: str, start_ms: int, parents: Iterable[Sensor] = ()) -> None:
        self.name = name
        self._parents = tuple(parents)
        self._samples: list[_Sample] = []
        self._past_count = 0
        self._past_total: float = 0
        self._begin(start_ms)

    def _begin(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._count = 0
        self._total: float = 0
        self._maximum = float("-inf")
        self._minimum = float("inf")

    @property
    def enabled(self) -> bool:
        """False if recorded values are discarded, so that a caller can skip the measurement."""
        return True

    def record(self, value: float = 1) -> None:
        """Record an event with a value."""
        self._count += 1
        self._total += value
        if value > self._maximum:
            self._maximum = value
        if value < self._minimum:
            self._minimum = value
        for parent in self._parents:
            parent.record(value)

    @property
    def count(self) -> int:
        """The number of events."""
        return self._past_count + self._count

    @property
    def total(self) -> float:
        """The sum of all values."""
        return self._past_total + self._total

    def roll(self, now_ms: int, window_ms: int, keep: int) -> None:
        """Store the current sample if its time is over, and keep the last ones."""
        if now_ms - self._start_ms < window_ms:
            return
        self._samples.append(_Sample(self._start_ms, self._count, self._total, self._maximum, self._minimum))
        del self._samples[: -keep + 1 or None]
        while self._samples and now_ms - self._samples[0].start_ms >= (keep + 1) * window_ms:
            del self._samples[0]  # outdated, because the sensor was not read for long
        self._past_count += self._count
        self._past_total += self._total
        self._begin(now_ms)

    def dump(self) -> tuple[Any, ...]:
        """Return all recorded data as plain data."""
        current = (self._start_ms, self._count, self._total, self._maximum, self._minimum)
        return (*current, self._past_count, self._past_total, tuple(map(tuple, self._samples)))

    def load(self, dumped: tuple[Any, ...]) -> None:
        """Replace the data by those of another sensor."""
        self._start_ms, self._count, self._total, self._maximum, self._minimum = dumped[:5]
        self._past_count, self._past_total = dumped[5:7]
        self._samples = [_Sample(*sample) for sample in dumped[7]]

    def window(self, now_ms: int) -> tuple[float, int, float, float, float]:
        """Return seconds, count, sum, maximum and minimum of the kept samples."""
        count, total, maximum, minimum = self._count, self._total, self._maximum, self._minimum
        for sample in self._samples:
            count += sample.times
            total += sample.total
            maximum = max(maximum, sample.maximum)
            minimum = min(minimum, sample.minimum)
        start = self._samples[0].start_ms if self._samples else self._start_ms
        return max(now_ms - start, 1) / 1000, count, total, maximum, minimum


class _Silent(Sensor):
    __slots__ = ()

    @property
    def enabled(self) -> bool:
        return False

    def record(self, value: float = 1) -> None:
        """Do nothing: the recording level is too low."""


def measure_count(sensor: Sensor, now_ms: int) -> float:
    """Return the number of events since the start."""
    return sensor.count


def measure_total(sensor: Sensor, now_ms: int) -> float:
    """Return the sum of values since the start."""
    return sensor.total


def measure_rate(sensor: Sensor, now_ms: int) -> float:
    """Return the number of events per second in the window."""
    seconds, count, _, _, _ = sensor.window(now_ms)
    return count / seconds


def measure_total_rate(sensor: Sensor, now_ms: int) -> float:
    """Return the sum of values per second in the window."""
    seconds, _, total, _, _ = sensor.window(now_ms)
    return total / seconds


def measure_avg(sensor: Sensor, now_ms: int) -> float:
    """Return the mean of the values in the window, NaN without values."""
    _, count, total, _, _ = sensor.window(now_ms)
    return total / count if count else float("nan")


def measure_max(sensor: Sensor, now_ms: int) -> float:
    """Return the largest value in the window, NaN without values."""
    _, count, _, maximum, _ = sensor.window(now_ms)
    return maximum if count else float("nan")


def measure_min(sensor: Sensor, now_ms: int) -> float:
    """Return the smallest value in the window, NaN without values."""
    _, count, _, _, minimum = sensor.window(now_ms)
    return minimum if count else float("nan")


MEASURES: Final[Mapping[str, Measure]] = {
    "count": measure_count,
    "total": measure_total,
    "rate": measure_rate,
    "total-rate": measure_total_rate,
    "avg": measure_avg,
    "max": measure_max,
    "min": measure_min,
}
"""Measures by name, for metrics of other processes."""


class Metrics:
    """The registry: sensors by name, and metrics that read a sensor or a callable.

    >>> metrics = Metrics()
    >>> sensor = metrics.sensor("task.0_0.dropped-records")
    >>> metrics.add_rate_and_total(sensor, "stream-task-metrics", {"task-id": "0_0"}, "dropped-records")
    >>> sensor.record()
    >>> metrics.value("dropped-records-total", "stream-task-metrics")
    1
    """

    def __init__(
        self,
        recording_level: str | RecordingLevel = "INFO",
        num_samples: int = 2,
        sample_window_ms: int = 30_000,
        clock: Clock | None = None,
    ) -> None:
        self.recording_level = RecordingLevel[recording_level.upper()] if isinstance(recording_level, str) else recording_level
        self._num_samples = num_samples
        self._sample_window_ms = sample_window_ms
        self._clock = clock or SystemClock()
        self._sensors: dict[str, Sensor] = {}
        self._measures: dict[MetricName, tuple[Sensor, Measure]] = {}
        self._gauges: dict[MetricName, Callable[[], Any]] = {}
        self.version = 0
        """Changes when a metric is added or removed."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], clock: Clock | None = None) -> Metrics:
        """Return a registry with the settings `metrics.*`."""
        return cls(
            config.get("metrics.recording.level", "INFO"),
            config.get("metrics.num.samples", 2),
            config.get("metrics.sample.window.ms", 30_000),
            clock,
        )

    def now_ms(self) -> int:
        """Return the time for measures."""
        return self._clock.now_ms()

    def should_record(self, level: RecordingLevel) -> bool:
        """Return True if sensors of this level record."""
        return level <= self.recording_level

    def metric_name(self, name: str, group: str, description: str = "", tags: Mapping[str, str] = _NO_TAGS) -> MetricName:
        """Return a metric name of this registry."""
        return MetricName(name, group, description, dict(tags))

    def sensor(self, name: str, level: RecordingLevel = RecordingLevel.INFO, parents: Iterable[Sensor] = ()) -> Sensor:
        """Return the sensor with this name; the first call makes it. Above the recording level it records nothing."""
        found = self._sensors.get(name)
        if found is None:
            kind = Sensor if self.should_record(level) else _Silent
            found = self._sensors[name] = kind(name, self._clock.now_ms(), parents)
        return found

    def add(self, sensor: Sensor, metric_name: MetricName, measure: Measure | str) -> None:
        """Add a metric of a sensor. The measure is a function or a key of `MEASURES`: `"avg"`, `"max"`, `"rate"` …"""
        if sensor.enabled:
            self.version += 1
            self._measures[metric_name] = (sensor, MEASURES[measure] if isinstance(measure, str) else measure)

    def add_gauge(self, metric_name: MetricName, read: Callable[[], Any]) -> None:
        """Add a metric that calls a function."""
        self.version += 1
        self._gauges[metric_name] = read

    def add_rate_and_total(self, sensor: Sensor, group: str, tags: Mapping[str, str], name: str, description: str = "") -> None:
        """Add `<name>-rate` and `<name>-total`: events per second, and all events."""
        what = description or name.replace("-", " ")
        self.add(sensor, self.metric_name(f"{name}-rate", group, f"The average number of {what} per second", tags), measure_rate)
        self.add(sensor, self.metric_name(f"{name}-total", group, f"The total number of {what}", tags), measure_count)

    def add_avg_and_max(self, sensor: Sensor, group: str, tags: Mapping[str, str], name: str, description: str = "") -> None:
        """Add `<name>-avg` and `<name>-max` of the recorded values."""
        what = description or name.replace("-", " ")
        self.add(sensor, self.metric_name(f"{name}-avg", group, f"The average {what}", tags), measure_avg)
        self.add(sensor, self.metric_name(f"{name}-max", group, f"The maximum {what}", tags), measure_max)

    def add_sum(self, sensor: Sensor, group: str, tags: Mapping[str, str], name: str, description: str = "") -> None:
        """Add `<name>`: the sum of the recorded values."""
        self.add(sensor, self.metric_name(name, group, description or name.replace("-", " "), tags), measure_total)

    def add_sensor(self, name: str, recording_level: RecordingLevel = RecordingLevel.INFO, *parents: Sensor) -> Sensor:
        """Return a sensor, under Kafka Streams' name. `add` adds its metrics."""
        return self.sensor(name, recording_level, parents)

    def add_rate_total_sensor(
        self, scope_name: str, entity_name: str, operation_name: str, recording_level: RecordingLevel, *tags: str
    ) -> Sensor:
        """Return a sensor with `<operation>-rate` and `<operation>-total` in group `stream-<scope>-metrics`.

        Its tags are the stream thread, `<scope>-id` with the entity's name, and the given tags: a key, its value, a key, …

        >>> metrics = Metrics()
        >>> sensor = metrics.add_rate_total_sensor("shop", "orders", "refund", RecordingLevel.INFO, "region", "eu")
        >>> sensor.record()
        >>> metrics.value("refund-total", "stream-shop-metrics", {"shop-id": "orders", "region": "eu"})
        1
        """
        sensor, group, named = self._own_sensor(scope_name, entity_name, operation_name, recording_level, tags)
        self.add_rate_and_total(sensor, group, named, operation_name, f"calls to {operation_name}")
        return sensor

    def add_latency_rate_total_sensor(
        self, scope_name: str, entity_name: str, operation_name: str, recording_level: RecordingLevel, *tags: str
    ) -> Sensor:
        """Like `add_rate_total_sensor`, with `<operation>-latency-avg` and `-max` of the recorded values in addition."""
        sensor, group, named = self._own_sensor(scope_name, entity_name, operation_name, recording_level, tags)
        self.add_avg_and_max(sensor, group, named, f"{operation_name}-latency", f"latency of calls to {operation_name}")
        self.add_rate_and_total(sensor, group, named, operation_name, f"calls to {operation_name}")
        return sensor

    def _own_sensor(
        self, scope: str, entity: str, operation: str, level: RecordingLevel, tags: tuple[str, ...]
    ) -> tuple[Sensor, str, dict[str, str]]:
        if len(tags) % 2:
            raise ValueError(f"tags of sensor {operation} must alternate keys and values; {tags[-1]!r} has no value")
        thread = threading.current_thread().name
        named = {"thread-id": thread, f"{scope}-id": entity, **dict(zip(tags[::2], tags[1::2]))}
        return self.sensor(f"external.{thread}.{scope}.{entity}.{operation}.{tags}", level), f"stream-{scope}-metrics", named

    def remove_sensor(self, name: str | Sensor) -> None:
        """Remove a sensor and its metrics."""
        sensor = self._sensors.pop(name.name if isinstance(name, Sensor) else name, None)
        if sensor is not None:
            self.version += 1
            self._measures = {key: entry for key, entry in self._measures.items() if entry[0] is not sensor}

    def remove_metric(self, metric_name: MetricName) -> None:
        if self._gauges.pop(metric_name, None) is not None or self._measures.pop(metric_name, None) is not None:
            self.version += 1

    def remove_with_tags(self, tags: Mapping[str, str]) -> None:
        """Remove all metrics with these tags, for example those of a closed task."""
        self.version += 1
        wanted = tags.items()
        gone = {id(entry[0]) for key, entry in self._measures.items() if wanted <= key.tags.items()}
        self._measures = {key: entry for key, entry in self._measures.items() if not wanted <= key.tags.items()}
        self._gauges = {key: read for key, read in self._gauges.items() if not wanted <= key.tags.items()}
        self._sensors = {name: sensor for name, sensor in self._sensors.items() if id(sensor) not in gone}

    def roll(self) -> None:
        """Store full samples. Cheap; called after each batch."""
        now_ms = self._clock.now_ms()
        for sensor in self._sensors.values():
            sensor.roll(now_ms, self._sample_window_ms, self._num_samples)

    @property
    def measures(self) -> Mapping[MetricName, tuple[Sensor, Measure]]:
        """The sensor and measure of each metric."""
        return self._measures

    @property
    def gauges(self) -> Mapping[MetricName, Callable[[], Any]]:
        """The function of each metric without a sensor."""
        return self._gauges

    def metrics(self) -> dict[MetricName, Metric]:
        """Return the current metrics."""
        self.roll()
        now_ms = self._clock.now_ms()
        found = {name: Metric(name, measure(sensor, now_ms)) for name, (sensor, measure) in self._measures.items()}
        found.update({name: Metric(name, read()) for name, read in self._gauges.items()})
        return found

    def value(self, name: str, group: str, tags: Mapping[str, str] = _NO_TAGS) -> Any:
        """Return the value of the first metric with this name, group and tags. Raises KeyError if there is none."""
        for metric_name, metric in self.metrics().items():
            if metric_name.name == name and metric_name.group == group and tags.items() <= metric_name.tags.items():
                return metric.metric_value
        raise KeyError(f"no metric {name} in group {group} with tags {dict(tags)}")
