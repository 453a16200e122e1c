"""The query server of `application.server`: bound before the instance joins the group, which learns its address."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.web.answers import Answers
from penstock.client.web.app_info import AppInfo
from penstock.client.web.application import Parts, WebApplication
from penstock.client.web.console import Console, starting
from penstock.client.web.dead_letters import DeadLetters, Topics
from penstock.client.web.errors import HttpError
from penstock.client.web.forwarding import Forwarder
from penstock.client.web.history import History
from penstock.client.web.running import RunningApplication
from penstock.client.web.server import QueryServer, bind
from penstock.client.web.settings import settings_json
from penstock.client.web.state_info import Readings, StateInfo
from penstock.client.web.topics import TopicRecords
from penstock.client.web.watcher import Watcher
from penstock.clock import wall_time
from penstock.config.streams_config import StreamsConfig
from penstock.peers.proofs import PeerKeys
from penstock.query.server_tls import server_tls
from penstock.spark.driver.spark_threads import SparkThreads
from penstock.spark.queries.store_changes import ChangeReader

_log = logging.getLogger(__name__)


class WebService:
    """The query server of one application.

    1. The constructor binds the socket, so that `host` is known.
    2. `starting` serves a page with the progress of the start.
    3. `serve` answers queries.
    4. `close` ends the server.
    """

    def __init__(self, config: StreamsConfig) -> None:
        self._config = config
        self._token: str | None = config["application.server.token"] or None
        tls = server_tls(config)
        self._tls = None if tls is None else tls.for_server()
        confidential = tls is not None or config["application.server.plaintext.allowed"]
        self._socket, self.host = bind(config["application.server"], self._token, confidential)
        self.history = History()
        self._keys = PeerKeys.of(config)
        self._forwarder = Forwarder(self._keys, tls)
        self._server: QueryServer | None = None
        self._watcher: Watcher | None = None
        self._change_reader: ChangeReader | None = None
        self._lock = threading.Lock()
        self._started = wall_time()
        self._step = "its turn", self._started
        self._web = WebApplication(self._token, self.host, self._keys, self._starting, lambda: settings_json(config))

    def starting(self, step: str) -> None:
        """Show what the start waits for."""
        self._step = step, wall_time()
        self._listen()

    def _starting(self) -> dict[str, Any]:
        return starting(self._config["application.id"], str(self.host), self._started, *self._step)

    def _listen(self) -> None:
        if self._server is None:
            self._server = QueryServer(self._socket, self._web.asgi, self._tls)
            self._server.start()

    def serve(
        self,
        running: RunningApplication,
        metrics: Callable[[], str] | None,
        readings: Readings = dict,
        letters: Topics | None = None,
    ) -> None:
        """Start answering queries."""
        queries, spark_threads, loop = running.queries, running.spark_threads, running.loop
        answers = Answers(queries, self.host, self._forwarder, self._changes)
        info = AppInfo(self._config, self.host, running, self.history)
        watcher = self._watcher = Watcher(self.history, running.lags, info.places, lambda: spark_threads.jvm_pid)
        watcher.start()
        stores = StateInfo(queries.stores, spark_threads, loop, self.history, readings)
        has_token = self._token is not None
        console = Console(running, info, self.history, watcher, stores, self.url.partition(":")[0], has_token)
        found = None if letters is None else DeadLetters(letters, self._dead_letter_topics, lambda: _inputs(spark_threads))
        topics = None if letters is None else TopicRecords(letters, self._config, lambda: spark_threads.application.plan)

        def pause(paused: bool) -> dict[str, Any]:
            if not running.state().is_running_or_rebalancing:
                raise HttpError(503, f"the application does not run: it is {running.state().name}")
            _log.warning("The application is %s on request of a console user", "paused" if paused else "resumed")
            running.pause(paused)
            return {"paused": running.paused()}

        self._web.begin(Parts(answers, info, metrics or (lambda: basic_metrics(info)), console, pause, found, topics))
        self._listen()
        _log.info("Query server and console: %s", self.url)

    def _dead_letter_topics(self) -> set[str]:
        """Return the dead letter topics: the configured one, and those to which a user's handler has sent records."""
        named = self._config["errors.dead.letter.queue.topic.name"]
        return {*([named] if named else []), *(letter["to"] for letter in self.history.dead_letters())}

    def _changes(self) -> ChangeReader:
        """The reader of changes; its clients are opened when somebody asks for the first time."""
        with self._lock:
            if self._change_reader is None:
                self._change_reader = ChangeReader(self._config, f"{self._config['application.id']}-web")
            return self._change_reader

    @property
    def url(self) -> str:
        """The address of query server and console."""
        return f"{'http' if self._tls is None else 'https'}://{self.host}"

    def close(self) -> None:
        """Stop serving."""
        self._web.end_streams()
        if self._watcher is not None:
            self._watcher.close()
        if self._server is not None:
            self._server.close()
        self._web.close()
        self._forwarder.close()
        if self._change_reader is not None:
            self._change_reader.close()
        self._socket.close()
        self.history.close()


def _inputs(spark_threads: SparkThreads) -> set[str]:
    """Return the input topics, without repartition topics."""
    parts = spark_threads.application.plan.subtopologies.values()
    return {topic for part in parts for topic in part.source_topics if topic not in part.repartition_source_topics}


def basic_metrics(info: Callable[[], Mapping[str, Any]]) -> str:
    """Return basic metrics in Prometheus' format, for an application without a metrics registry."""
    found = info()
    totals = found["rates"]["totals"]
    lines = [
        "# TYPE penstock_running gauge",
        f"penstock_running {int(found['state'] == 'RUNNING')}",
        "# TYPE penstock_records_total counter",
        f"penstock_records_total {totals.get('records', 0)}",
        "# TYPE penstock_turns_total counter",
        f"penstock_turns_total {totals.get('turns', 0)}",
        "# TYPE penstock_task_lag gauge",
        *(f'penstock_task_lag{{task_id="{task["id"]}"}} {task["lag"]}' for task in found["tasks"] if task["lag"] is not None),
        "# TYPE penstock_partition_lag gauge",
        *(f'penstock_partition_lag{{topic="{p["topic"]}",partition="{p["partition"]}"}} {p["lag"]}' for p in found["partitions"]),
    ]
    return "\n".join(lines) + "\n"
