"""Metrics in Prometheus' text format, version 0.0.4.

A metric `process-total` of group `stream-task-metrics` becomes `penstock_stream_task_process_total`, its tags become labels. What
is text, such as a state, becomes a label `value` of a metric that is always 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from penstock.metrics.registry import Metric, MetricName

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_]")


def render(metrics: Mapping[MetricName, Metric]) -> str:
    """All metrics as Prometheus reads them.

    >>> name = MetricName("process-total", "stream-task-metrics", "The total number of calls", {"task-id": "0_0"})
    >>> print(render({name: Metric(name, 3)}), end="")
    # HELP penstock_stream_task_process_total The total number of calls
    # TYPE penstock_stream_task_process_total counter
    penstock_stream_task_process_total{task_id="0_0"} 3
    """
    families: dict[str, list[str]] = {}
    helps: dict[str, str] = {}
    for name, metric in metrics.items():
        family = family_of(name)
        helps.setdefault(family, name.description)
        families.setdefault(family, []).append(f"{family}{_labels(name, metric.metric_value)} {_value(metric.metric_value)}")
    lines = []
    for family in sorted(families):
        lines.append(f"# HELP {family} {_escape_help(helps[family])}".rstrip())
        lines.append(f"# TYPE {family} {'counter' if family.endswith('_total') else 'gauge'}")
        lines += sorted(families[family])
    return "\n".join(lines) + "\n" if lines else ""


def family_of(name: MetricName) -> str:
    """The name of a metric in Prometheus.

    >>> family_of(MetricName("put-rate", "stream-state-metrics"))
    'penstock_stream_state_put_rate'
    """
    group = name.group.removesuffix("-metrics").removeprefix("penstock-")
    return _NOT_ALLOWED.sub("_", f"penstock_{group}_{name.name}")


def _labels(name: MetricName, value: Any) -> str:
    labels = {_NOT_ALLOWED.sub("_", tag): text for tag, text in name.tags.items()}
    if not _is_number(value):
        labels["value"] = str(value)
    return "{" + ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items()) + "}" if labels else ""


def _value(value: Any) -> str:
    if not _is_number(value):
        return "1"
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _escape(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
