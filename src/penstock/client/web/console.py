"""The console's document: everything that it shows without a request, keyed by names so that updates are small.

Queries, dead letters and settings are requested separately.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import penstock
from penstock.client.state import State
from penstock.client.web.app_info import AppInfo
from penstock.client.web.history import SERIES, History
from penstock.client.web.running import RunningApplication
from penstock.client.web.state_info import StateInfo
from penstock.client.web.watcher import Watcher
from penstock.clock import wall_time
from penstock.drawing.map import map_topology
from penstock.ids import TopicPartition

_MOST_LINES = 300


class Console:
    """Makes the document of a started application."""

    def __init__(
        self,
        running: RunningApplication,
        info: AppInfo,
        history: History,
        watcher: Watcher,
        stores: StateInfo,
        scheme: str,
        has_token: bool = False,
    ) -> None:
        self._running = running
        self._loop = running.loop
        self._info = info
        self._history = history
        self._watcher = watcher
        self._stores = stores
        self._map = map_topology(running.description)
        self._scheme = scheme
        self._has_token = has_token
        self._lines: tuple[object, dict[str, str]] | None = None

    def __call__(self) -> dict[str, Any]:
        """Return the current document."""
        app = self._info()
        since = self._running.state_since()
        busy, failed = self._history.rates.busy(), self._history.failed()
        return {
            "app": {
                "id": app["application_id"],
                "host": app["host"],
                "state": app["state"],
                "since": app["started"] if since is None else round(since * 1000),
                "started": app["started"],
                "failure": app["failure"],
                "guarantee": app["processing_guarantee"],
                "paused": self._running.paused(),
                "waiting": dict(enumerate_text(self._waiting(app))),
                "version": penstock.__version__,
                "python": platform.python_version(),
                "has_token": self._has_token,
                "spark_ui": self._running.spark_ui,
            },
            "now": {
                "records": app["rates"]["records_per_second"],
                "produced": app["rates"]["produced_per_second"],
                "lag": app["lag"],
                "totals": app["rates"]["totals"],
            },
            "series": list(SERIES),
            "points": self._history.points(),
            "map": {**self._map, "lines": self._code_lines()},
            "edges": {f"{edge['from']}\n{edge['to']}": edge["rate"] for edge in app["rates"]["edges"]},
            "nodes": {name: {"busy": busy.get(name, 0.0), "failed": failed.get(name, 0)} for name in sorted({*busy, *failed})},
            "partitions": {
                f"{found['topic']}-{found['partition']}": {**found, **self._progress(found)} for found in app["partitions"]
            },
            "tasks": {task["id"]: {**task, "since": self._watcher.since(task["id"])} for task in app["tasks"]},
            "threads": {thread["name"]: thread for thread in app["threads"]},
            "instances": {
                found["host"]: {**found, "url": f"{self._scheme}://{found['host']}/", "here": found["host"] == app["host"]}
                for found in app["instances"]
            },
            "restoring": {f"{found['task']} {found['store']}": found for found in app["restoring"]},
            "stores": {f"{row['store']} {row['task']}": row for row in self._stores()},
            "causes": dict(enumerate_text(self._history.causes())),
            "log": {str(line["number"]): line for line in self._history.log.lines()[-_MOST_LINES:]},
        }

    def _progress(self, found: Mapping[str, Any]) -> dict[str, Any]:
        trend = self._watcher.trend(TopicPartition(found["topic"], found["partition"]))
        if trend is None:
            return {}
        return {"trend": trend.lag, "read": trend.read, "written": trend.written, "seconds_left": trend.seconds_left}

    def _code_lines(self) -> dict[str, str]:
        """Return the line of user code that added each node."""
        plan = self._running.spark_threads.application.plan
        if self._lines is None or self._lines[0] is not plan:
            specs = [node for part in plan.subtopologies.values() for node in part.nodes]
            self._lines = plan, {node.name: node.added_at for node in specs if node.added_at}
        return self._lines[1]

    def _waiting(self, app: Mapping[str, Any]) -> list[str]:
        """Return what a starting application waits for."""
        if self._running.state() not in (State.CREATED, State.REBALANCING):
            return []
        if not self._loop.has_begun:
            count = len(app["threads"])
            return [f"Spark to start {count} worker process{'es' if count != 1 else ''}, one for each stream thread"]
        if self._loop.membership is None:
            return ["the other instances of the group, and for the leader to assign the tasks"]
        mine = [task for task in app["tasks"] if task["role"] == "active"]
        open_tasks = [task for task in mine if task["state"] == "RUNNING"]
        if app["restoring"]:
            left = sum(max(0, found["end"] - found["position"]) for found in app["restoring"])
            return [f"{len(app['restoring'])} stores to be restored from their changelogs: {left:,} records are left"]
        if len(open_tasks) < len(mine):
            return [f"{len(mine) - len(open_tasks)} of {len(mine)} tasks to be opened"]
        return ["the group to agree on the assignment"]


def starting(application_id: str, host: str, started: float, step: str, since: float) -> dict[str, Any]:
    """Return the document of a starting application: what it waits for, and since when."""
    return {
        "app": {
            "id": application_id,
            "host": host,
            "state": "STARTING",
            "since": round(started * 1000),
            "started": round(started * 1000),
            "waiting": {"0": step},
            "waiting_since": round(since * 1000),
            "version": penstock.__version__,
            "python": platform.python_version(),
        }
    }


def enumerate_text(items: list[Any]) -> list[tuple[str, Any]]:
    """Convert a list to members of a document.

    >>> enumerate_text(["a", "b"])
    [('0', 'a'), ('1', 'b')]
    """
    return [(str(number), item) for number, item in enumerate(items)]


def now_ms() -> int:
    """Return the current time, for the ages that the console shows."""
    return round(wall_time() * 1000)
