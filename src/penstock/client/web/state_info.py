"""Sizes of stores by task: entries, disk, memory, and the lag of standbys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.queries.local_stores import LocalStores
from penstock.client.scheduling.event_loop import EventLoop
from penstock.client.web.history import History
from penstock.metrics.registry import STATE_GROUP, Metric, MetricName
from penstock.spark.driver.spark_threads import SparkThreads

Readings = Callable[[], Mapping[MetricName, Metric]]

_DISK = ("total-sst-files-size",)
_MEMORY = ("size-all-mem-tables", "block-cache-usage", "estimate-table-readers-mem")
# Stores in memory count their entries. RocksDB would count each version of a key.
_ENTRIES = ("num-keys",)


class StateInfo:
    """Collects the workers' metrics of their stores. It opens nothing and sends no request."""

    def __init__(
        self, stores: LocalStores, spark_threads: SparkThreads, loop: EventLoop, history: History, readings: Readings = dict
    ) -> None:
        self._stores = stores
        self._spark_threads = spark_threads
        self._loop = loop
        self._history = history
        self._readings = readings

    def __call__(self) -> list[dict[str, Any]]:
        """Return one row for each store of each local task, active or standby."""
        plan, measured = self._spark_threads.application.plan, self._measured()
        owners, copies = self._loop.owners, self._loop.standby_hosts
        restoring = {(found["task"], found["store"]): found for found in self._history.restoring()}
        behind = {(str(copy.task_id), copy.store): max(0, copy.end - copy.offset) for copy in self._loop.standbys.copies()}
        rows = []
        for task in plan.tasks():
            if task not in owners and task not in copies:
                continue
            subtopology = plan.subtopologies[task.subtopology]
            for store in sorted(subtopology.stores):
                key = str(task), store
                found, restored, active = measured.get(key, {}), restoring.get(key), task in owners
                lag = max(0, restored["end"] - restored["position"]) if restored else 0 if active else behind.get(key)
                rows.append(
                    {
                        "store": store,
                        "task": str(task),
                        "partition": task.partition,
                        "role": "active" if active else "standby",
                        "state": "restoring" if restored or (active and not self._loop.is_ready(task)) else "ready",
                        "changelog": subtopology.store_to_changelog.get(store),
                        "changelog_lag": lag if store in subtopology.store_to_changelog else None,
                        "entries": _first(found, _ENTRIES),
                        "disk": _first(found, _DISK),
                        "memory": _sum(found, _MEMORY),
                    }
                )
        return rows

    def _measured(self) -> dict[tuple[str, str], dict[str, int]]:
        wanted = {*_DISK, *_MEMORY, *_ENTRIES}
        found: dict[tuple[str, str], dict[str, int]] = {}
        for name, metric in self._readings().items():
            if name.group == STATE_GROUP and name.name in wanted and isinstance(metric.metric_value, (int, float)):
                store = next((value for tag, value in name.tags.items() if tag.endswith("-state-id")), "")
                found.setdefault((name.tags.get("task-id", ""), store), {})[name.name] = int(metric.metric_value)
        return found


def _first(found: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    return next((found[name] for name in names if name in found), None)


def _sum(found: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    known = [found[name] for name in names if name in found]
    return sum(known) if known else None
