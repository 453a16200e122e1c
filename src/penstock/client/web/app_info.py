"""The data of `/api/app`: state, threads, tasks, topology, rates."""

from __future__ import annotations

from typing import Any

from penstock.client.input_lags import Lags
from penstock.client.web.edges import Edges
from penstock.client.web.history import History
from penstock.client.web.running import RunningApplication
from penstock.clock import wall_time
from penstock.config.streams_config import StreamsConfig
from penstock.drawing.picture import draw_topology
from penstock.query.metadata import HostInfo
from penstock.topology.description import Processor, Sink, Source, TopologyDescription


class AppInfo:
    """Collects the state of a running application."""

    def __init__(self, config: StreamsConfig, here: HostInfo, running: RunningApplication, history: History) -> None:
        self._config, self._here = config, here
        self._running = running
        self._loop, self._spark_threads = running.loop, running.spark_threads
        self._history = history
        self._topology = topology_json(running.description)
        self._drawn: str | None = None
        self._edges = Edges(running.description)
        self._started = wall_time()

    def __call__(self) -> dict[str, Any]:
        failure = self._running.failure()
        history, rates, lags = self._history, self._history.rates.per_second(), self._running.lags()
        return {
            "application_id": self._config["application.id"],
            "host": str(self._here),
            "state": self._running.state().name,
            "failure": None if failure is None else f"{type(failure).__name__}: {failure}",
            "processing_guarantee": self._config["processing.guarantee"],
            "started": round(self._started * 1000),
            "time": round(wall_time() * 1000),
            "threads": self._threads(),
            "tasks": self._tasks(lags),
            "lag": lags.total,
            "partitions": [
                {"topic": p.topic, "partition": p.partition, "lag": at.lag, "committed": at.committed, "end": at.end}
                for p, at in sorted(lags.partitions.items())
            ],
            "instances": [
                {"host": str(m.host_info), "stores": sorted(m.state_store_names), "partitions": len(m.topic_partitions)}
                for m in self._running.queries.locations.all()
            ],
            "topology": self._topology,
            "picture": self._picture(),
            "rates": {**rates, "edges": self._edges.rates(rates["edges"], rates["topics"])},
            "minutes": history.minutes(),
            "restoring": history.restoring(),
            "errors": history.errors(),
            "dead_letters": history.dead_letters(),
        }

    def places(self) -> dict[str, str]:
        """Return the location of each task as text, to detect changes."""
        owners, standbys = self._loop.owners, self._loop.standby_hosts
        found = {str(task): f"standby {host}" for task, host in standbys.items()}
        return found | {str(task): f"active {worker}" for task, worker in owners.items()}

    def _picture(self) -> str:
        """Return the drawing of the topology, made once."""
        if self._drawn is None:
            self._drawn = draw_topology(self._running.description, self._config["application.id"], with_ends=True)
        return self._drawn

    def _threads(self) -> list[dict[str, Any]]:
        owners, states, waiting = self._loop.owners, self._running.thread_states(), self._loop.waiting_for_core
        return [
            {
                "name": worker.name,
                "executor": worker.executor or "local",
                "state": states.get(worker.name) or ("RUNNING" if self._loop.is_open else "STARTING"),
                "waiting_for_core_seconds": round(waiting[worker.name], 1) if worker.name in waiting else None,
                "tasks": [str(task) for task, owner in sorted(owners.items()) if owner == index],
            }
            for index, worker in self._spark_threads.workers.items()
        ]

    def _tasks(self, lags: Lags) -> list[dict[str, Any]]:
        owners, standbys, locations = self._loop.owners, self._loop.standby_hosts, self._running.queries.locations
        plan = locations.plan  # matches the tasks of this generation
        restoring = {progress["task"] for progress in self._history.restoring()}
        found = []
        for task in plan.tasks():
            active, standby = task in owners, task in standbys
            subtopology = plan.subtopologies[task.subtopology]
            worker = self._spark_threads.workers.get(owners[task]) if active else None
            ready = self._loop.is_ready(task) and str(task) not in restoring
            host = self._here if active else locations.host_of(task)
            found.append(
                {
                    "id": str(task),
                    "role": "active" if active else "standby" if standby else "elsewhere",
                    "state": ("RUNNING" if ready else "RESTORING") if active else "RUNNING" if standby else None,
                    "thread": None if worker is None else worker.name,
                    "executor": (worker.executor or "local")
                    if worker is not None
                    else standbys[task] or "local"
                    if standby
                    else None,
                    "host": None if host == HostInfo.unavailable() else str(host),
                    "lag": self._loop.standbys.lag(task) if standby and not active else lags.tasks.get(task),
                    "inputs": [f"{t}-{task.partition}" for t in subtopology.source_topics if task.partition < plan.partitions[t]],
                    "stores": sorted(subtopology.stores),
                }
            )
        return found


def topology_json(description: TopologyDescription) -> dict[str, Any]:
    """Return nodes and edges for a drawing."""
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, str]] = []
    for subtopology in description.subtopologies:
        for node in subtopology.nodes:
            nodes.append({"name": node.name, "subtopology": subtopology.id, **_details(node)})
            edges += [{"from": node.name, "to": successor.name} for successor in node.successors]
    for store in description.global_stores:
        nodes += [
            {"name": node.name, "subtopology": store.id, "global": True, **_details(node)}
            for node in (store.source, store.processor)
        ]
        edges.append({"from": store.source.name, "to": store.processor.name})
    return {"nodes": nodes, "edges": edges, "description": str(description)}


def _details(node: Any) -> dict[str, Any]:
    if isinstance(node, Source):
        return {"type": "source", "topics": sorted(node.topic_set or ())}
    if isinstance(node, Sink):
        return {"type": "sink", "topic": None if node.topic is None else str(node.topic)}
    return {"type": "processor", "stores": sorted(node.stores) if isinstance(node, Processor) else []}
