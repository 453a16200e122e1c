"""Metrics in Prometheus' text format 0.0.4, written by prometheus-client.

A metric `process-total` of group `stream-task-metrics` becomes `penstock_stream_task_process_total`. Tags become labels. A
text value, such as a state, becomes the label `value` of a metric that is always 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Sample
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from penstock.metrics.registry import Metric, MetricName

__all__ = ["CONTENT_TYPE", "MetricsCollector", "family_of", "render"]

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")


def render(metrics: Mapping[MetricName, Metric]) -> str:
    """Return all metrics in Prometheus' text format.

    >>> name = MetricName("process-total", "stream-task-metrics", "The total number of calls", {"task-id": "0_0"})
    >>> print(render({name: Metric(name, 3)}), end="")
    # HELP penstock_stream_task_process_total The total number of calls
    # TYPE penstock_stream_task_process_total counter
    penstock_stream_task_process_total{task_id="0_0"} 3.0
    """
    registry = CollectorRegistry()  # not the default registry, which has the application's own metrics
    registry.register(MetricsCollector(metrics))
    return generate_latest(registry).decode()


class MetricsCollector(Collector):
    """Passes metrics to prometheus-client, grouped by name, sorted by name and labels."""

    def __init__(self, metrics: Mapping[MetricName, Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Family]:
        """Yield the families. The first metric of a name gives the help text. Samples of a family may have different labels."""
        families: dict[str, Family] = {}
        for name, metric in self._metrics.items():
            family = family_of(name)
            if family not in families:
                kind = CounterMetricFamily if family.endswith("_total") else GaugeMetricFamily
                families[family] = kind(family, name.description)
            families[family].samples.append(_sample(family, name, metric.metric_value))
        for _, found in sorted(families.items()):
            found.samples.sort(key=lambda sample: sorted(sample.labels.items()))
            yield found

    def describe(self) -> Iterable[Family]:
        """Return nothing: a registry would otherwise collect everything twice."""
        return ()


def family_of(name: MetricName) -> str:
    """Return the Prometheus name of a metric.

    >>> family_of(MetricName("put-rate", "stream-state-metrics"))
    'penstock_stream_state_put_rate'
    """
    group = name.group.removesuffix("-metrics").removeprefix("penstock-")
    return _NOT_ALLOWED.sub("_", f"penstock_{group}_{name.name}")


def _sample(family: str, name: MetricName, value: Any) -> Sample:
    labels = {_NOT_ALLOWED.sub("_", tag): str(text) for tag, text in name.tags.items()}
    if isinstance(value, int | float):
        return Sample(family, labels, value)
    return Sample(family, {**labels, "value": str(value)}, 1)
