"""Metrics of another process: its registry's data are sent in small updates.

Names are sent when they change, a sensor's data after it recorded something, gauges at most once a second. Rates and averages
are computed by the reader from the samples.

All data are plain. A measure is sent by its name; a user's own measure is evaluated by the sender, like a gauge.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.clock import Clock, SystemClock
from penstock.metrics.registry import MEASURES, Measure, Metric, MetricName, Metrics, Sensor

_GAUGES_EVERY = 1.0
_PLAIN = (int, float, str, type(None))


@dataclass(frozen=True)
class MetricsLayout:
    """The metrics: name, sensor number and measure of each (`MEASURES`), and the names of the gauges."""

    measures: tuple[tuple[MetricName, int, str], ...]
    gauges: tuple[MetricName, ...]


@dataclass(frozen=True)
class MetricsUpdate:
    """The changes since the last update. Without a layout, the previous one applies."""

    version: int
    layout: MetricsLayout | None = None
    sensors: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    gauges: tuple[Any, ...] | None = None


class MetricsSender:
    """Returns the changes of a registry since the last call."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._version = -1
        self._sensors: list[Sensor] = []
        self._told: list[int] = []
        self._gauges: dict[MetricName, Callable[[], Any]] = {}
        self._gauges_told = 0.0

    def update(self) -> MetricsUpdate | None:
        """Return the changes, or None."""
        metrics, layout = self._metrics, None
        metrics.roll()
        if metrics.version != self._version:
            layout = self._lay_out()
        changed: dict[int, tuple[Any, ...]] = {}
        for number, sensor in enumerate(self._sensors):
            if sensor.count != self._told[number]:
                self._told[number] = sensor.count
                changed[number] = sensor.dump()
        gauges, now = None, time.monotonic()
        if self._gauges and (layout is not None or now - self._gauges_told > _GAUGES_EVERY):
            self._gauges_told = now
            gauges = tuple(_read(gauge) for gauge in self._gauges.values())
        if layout is None and not changed and gauges is None:
            return None
        return MetricsUpdate(self._version, layout, changed, gauges)

    def _lay_out(self) -> MetricsLayout:
        metrics = self._metrics
        self._version = metrics.version
        numbers: dict[int, int] = {}
        self._sensors = []
        self._gauges = {_plain(name): read for name, read in metrics.gauges.items()}
        measures = []
        for name, (sensor, measure) in metrics.measures.items():
            known = next((known for known, function in MEASURES.items() if function is measure), None)
            if known is None:
                self._gauges[_plain(name)] = partial(_measured, metrics, sensor, measure)
                continue
            if id(sensor) not in numbers:
                numbers[id(sensor)] = len(self._sensors)
                self._sensors.append(sensor)
            measures.append((_plain(name), numbers[id(sensor)], known))
        self._told = [-1] * len(self._sensors)
        return MetricsLayout(tuple(measures), tuple(self._gauges))


class MetricsReceiver:
    """The last known registry of another process.

    >>> metrics = Metrics()
    >>> sensor = metrics.sensor("process")
    >>> metrics.add_rate_and_total(sensor, "stream-task-metrics", {"task-id": "0_0"}, "process")
    >>> sender, receiver = MetricsSender(metrics), MetricsReceiver()
    >>> sensor.record(); receiver.take(sender.update())
    >>> [metric.metric_value for name, metric in receiver.metrics().items() if name.name == "process-total"]
    [1]
    """

    def __init__(self, num_samples: int = 2, sample_window_ms: int = 30_000, clock: Clock | None = None) -> None:
        self._num_samples, self._sample_window_ms = num_samples, sample_window_ms
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._version = -1
        self._layout = MetricsLayout((), ())
        self._sensors: dict[int, Sensor] = {}
        self._gauges: tuple[Any, ...] = ()

    def take(self, update: MetricsUpdate | None) -> None:
        """Apply an update. Data that do not fit the layout are ignored."""
        if update is not None:
            with self._lock:
                self._take(update)

    def _take(self, update: MetricsUpdate) -> None:
        if update.layout is not None:
            sensors = {number: Sensor("", 0) for _, number, _ in update.layout.measures}
            self._layout, self._sensors, self._version, self._gauges = update.layout, sensors, update.version, ()
        elif update.version != self._version:
            return
        for number, dumped in update.sensors.items():
            if number in self._sensors:
                self._sensors[number].load(dumped)
        if update.gauges is not None:
            self._gauges = update.gauges

    def metrics(self) -> dict[MetricName, Metric]:
        """Return the current metrics."""
        with self._lock:
            now_ms, layout, sensors = self._clock.now_ms(), self._layout, self._sensors
            for sensor in sensors.values():
                sensor.roll(now_ms, self._sample_window_ms, self._num_samples)
            found = {
                name: Metric(name, MEASURES[measure](sensors[number], now_ms))
                for name, number, measure in layout.measures
                if measure in MEASURES
            }
            found.update({name: Metric(name, value) for name, value in zip(layout.gauges, self._gauges) if value is not None})
            return found


def _read(gauge: Callable[[], Any]) -> Any:
    try:
        value = gauge()
        return value if isinstance(value, _PLAIN) else float(value) if hasattr(value, "__float__") else str(value)
    except Exception:  # noqa: BLE001 - a gauge of a closed object has no value
        return None


def _measured(metrics: Metrics, sensor: Sensor, measure: Measure) -> float:
    return measure(sensor, metrics.now_ms())


def _plain(name: MetricName) -> MetricName:
    """Return the name as plain text: a user's name may contain other objects."""
    if all(type(text) is str for text in (name.name, name.group, name.description, *name.tags.keys(), *name.tags.values())):
        return name
    tags = {str(tag): str(text) for tag, text in name.tags.items()}
    return MetricName(str(name.name), str(name.group), str(name.description), tags)
