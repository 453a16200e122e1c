"""A server for metrics alone: `GET /metrics`, on the loopback address unless `metrics.host` says otherwise.

It is a query server with one path, behind the same guard: as many connections and requests at a time, as much patience, the same
token, and nothing for pages of other sites.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from penstock.client.web.guard import Guard, is_loopback
from penstock.client.web.responses import failed, metrics_route, refused
from penstock.client.web.rooms import Room
from penstock.client.web.server import QueryServer, listen
from penstock.errors import ConfigError
from penstock.query.metadata import HostInfo

_log = logging.getLogger(__name__)


class MetricsServer:
    """Answers with what `text()` gives, until closed; with a token only those who send it."""

    def __init__(self, host: str, port: int, text: Callable[[], str], name: str, token: str | None = None) -> None:
        self._socket = _bind(host, port, token)
        self._room = Room("metrics", 2, 2)
        app = Starlette(routes=[metrics_route(self._room, text)], exception_handlers={HTTPException: refused, 500: failed})
        self._server = QueryServer(self._socket, Guard(app, token, host), name=name)
        self._server.start()
        _log.info("metrics are served at http://%s/metrics", HostInfo(host, self.port))

    @property
    def port(self) -> int:
        """The port, also where a free one was asked for."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.close()
        self._room.close()


def _bind(host: str, port: int, token: str | None) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigError(f"metrics.host = {host!r} is not known ({exc}): give a name or an address of this host") from exc
    if not token and not all(is_loopback(str(info[4][0])) for info in found):
        raise ConfigError(
            f"metrics.host = {host!r} can be reached from other hosts: set application.server.token to a secret that Prometheus "
            "sends (authorization: credentials_file), or use 127.0.0.1"
        )
    family, _, _, _, address = sorted(found, key=lambda info: info[0] != socket.AF_INET)[0]
    return listen(f"metrics.host = {host!r}, metrics.port = {port}", family, address)
