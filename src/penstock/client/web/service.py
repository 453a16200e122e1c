"""Everything behind `application.server`: bound before the group is joined, so that others can be told where, then served."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.conductor import Conductor
from penstock.client.queries.queries import Queries
from penstock.client.state import State
from penstock.client.web.answers import Answers
from penstock.client.web.app_info import AppInfo
from penstock.client.web.application import WebApplication
from penstock.client.web.forwarding import Forwarder
from penstock.client.web.history import History
from penstock.client.web.server import QueryServer, bind
from penstock.config import StreamsConfig
from penstock.ids import TopicPartition
from penstock.peers.proofs import PeerKeys
from penstock.query.server_tls import server_tls
from penstock.spark.fleet import Fleet
from penstock.topology.description import TopologyDescription

_log = logging.getLogger(__name__)


class WebService:
    """The query server of one application.

    1. The constructor binds the socket; from then on `host` can be told to the group.
    2. `serve` answers.
    3. `close` ends it.
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
        self._web: WebApplication | None = None

    def serve(
        self,
        queries: Queries,
        description: TopologyDescription,
        state: Callable[[], State],
        failure: Callable[[], BaseException | None],
        fleet: Fleet,
        conductor: Conductor,
        ends: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]],
        metrics: Callable[[], str] | None,
        thread_states: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Answer from now on."""
        answers = Answers(queries, self.host, self._forwarder)
        info = AppInfo(
            self._config,
            self.host,
            description,
            state,
            failure,
            fleet,
            conductor,
            queries.stores,
            lambda: queries.locations,
            ends,
            self.history,
            thread_states,
        )
        self._web = WebApplication(answers, info, metrics or (lambda: basic_metrics(info)), self._token, self.host, self._keys)
        self._server = QueryServer(self._socket, self._web.asgi, self._tls)
        self._server.start()
        _log.info("queries are answered at %s, where also a page shows the application", self.url)

    @property
    def url(self) -> str:
        """Where queries are answered and the page is."""
        return f"{'http' if self._tls is None else 'https'}://{self.host}"

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        if self._web is not None:
            self._web.close()
        self._forwarder.close()
        self._socket.close()
        self.history.close()


def basic_metrics(info: Callable[[], Mapping[str, Any]]) -> str:
    """The few numbers that are known without a registry of metrics, as Prometheus text."""
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
    ]
    return "\n".join(lines) + "\n"
