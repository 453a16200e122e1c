"""`metric.reporters`: user objects that are notified of new and removed metrics, as in Kafka.

A reporter is a class with a constructor without arguments, an object, or an import path. It runs in the driver on a separate
thread, which compares the metrics' names once a second.

As in Kafka, the application does not start if a reporter cannot be configured. Later exceptions of a reporter are logged.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.clock import monotonic
from penstock.errors import ConfigError, StreamsError
from penstock.metrics.registry import Metric, MetricName

_log = logging.getLogger(__name__)

_KEY = "metric.reporters"
_EVERY, _FRESH = 1.0, 0.2
_CLOSE_SECONDS = 5.0
_JAVAS = "org.apache.kafka."

Read = Callable[[], Mapping[MetricName, Metric]]


class KafkaMetric:
    """A metric as a reporter sees it: its name and its current value."""

    def __init__(self, metric_name: MetricName, read: Callable[[MetricName], Any]) -> None:
        self.metric_name = metric_name
        self._read = read

    @property
    def metric_value(self) -> Any:
        """The current value, None if the metric no longer exists."""
        return self._read(self.metric_name)

    def __repr__(self) -> str:
        return f"KafkaMetric({self.metric_name!r})"


class MetricsReporter:
    """Base class for reporters that export metrics. Override the methods that you need.

    >>> class Names(MetricsReporter):
    ...     def metric_change(self, metric):
    ...         print(metric.metric_name.name, metric.metric_value)
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once, with the application's settings."""

    def init(self, metrics: Sequence[KafkaMetric]) -> None:
        """Called once, with the metrics that exist at the start."""

    def metric_change(self, metric: KafkaMetric) -> None:
        """Called for a new metric."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """Called for a removed metric."""

    def close(self) -> None:
        """Called when the application closes."""


def make_reporters(configs: Mapping[str, Any]) -> list[MetricsReporter]:
    """Return the reporters of the settings. Java reporters are omitted with a warning."""
    found = []
    for given in configs[_KEY] or ():
        if isinstance(given, str) and given.startswith(_JAVAS):
            _log.warning("%s: %s is a Java class and has no effect", _KEY, given)
            continue
        reporter = _import(given) if isinstance(given, str) else given
        if inspect.isclass(reporter):
            reporter = reporter()
        if not callable(getattr(reporter, "metric_change", None)):
            raise ConfigError(
                f"{_KEY}: {given!r} is not a reporter: it must be a class or an object with metric_change(metric), or the import "
                "path of one; see MetricsReporter"
            )
        found.append(reporter)
    return found


def _import(path: str) -> Any:
    module_name, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigError(f"{_KEY}: {path!r} cannot be imported ({exc}): expected <module>.<name> or <module>:<name>") from exc


class Reporters:
    """Notifies all reporters of an application until it closes."""

    def __init__(self, configs: Mapping[str, Any], read: Read, name: str) -> None:
        self._reporters = make_reporters(configs)
        self._configs = configs
        self._read = read
        self._known: dict[MetricName, KafkaMetric] = {}
        self._values: Mapping[MetricName, Metric] = {}
        self._read_at = -_FRESH
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Configure all reporters, pass them the existing metrics, and start the thread.

        Raises StreamsError if a reporter raises.
        """
        if not self._reporters:
            return
        self._tell("configure", self._configs)
        self._known = {name: self._metric(name) for name in self._read()}
        self._tell("init", list(self._known.values()))
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and close the reporters."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(_EVERY):
            self.look()
        self._notify_guarded("close")

    def look(self) -> None:
        """Notify the reporters of new and removed metrics."""
        now = self._read()
        for name in [name for name in self._known if name not in now]:
            self._notify_guarded("metric_removal", self._known.pop(name))
        for name in now:
            if name not in self._known:
                self._known[name] = self._metric(name)
                self._notify_guarded("metric_change", self._known[name])

    def _metric(self, name: MetricName) -> KafkaMetric:
        return KafkaMetric(name, self._value)

    def _value(self, name: MetricName) -> Any:
        """Return a metric's value. A snapshot is reused for 0.2 s, because reporters read many values at a time."""
        now = monotonic()
        if now - self._read_at > _FRESH:
            self._values, self._read_at = self._read(), now
        found = self._values.get(name)
        return None if found is None else found.metric_value

    def _tell(self, what: str, *arguments: Any) -> None:
        for reporter in self._reporters:
            try:
                getattr(reporter, what, _nothing)(*arguments)
            except Exception as exc:
                raise StreamsError(f"{_KEY}: {what} of {type(reporter).__name__} failed: {exc!r}") from exc

    def _notify_guarded(self, what: str, *arguments: Any) -> None:
        for reporter in self._reporters:
            try:
                getattr(reporter, what, _nothing)(*arguments)
            except BaseException:  # noqa: BLE001 - the user's code
                _log.exception("%s of the metrics reporter %s failed", what, type(reporter).__name__)


def _nothing(*_: Any) -> None:
    """Replaces a method that a reporter does not have."""
