"""The metrics server: `GET /metrics`, on loopback unless `metrics.host` is set.

It is a query server with one path and the same limits of connections and requests, the same token, and the same protection
against other sites.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from penstock.client.web.guard import Guard
from penstock.client.web.headers import SafeHeaders
from penstock.client.web.read_pools import ReadPool
from penstock.client.web.responses import failed, metrics_route, refused
from penstock.client.web.server import QueryServer, listen
from penstock.errors import ConfigError
from penstock.peers.addresses import is_loopback
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import server_tls

_log = logging.getLogger(__name__)


class MetricsServer:
    """Serves the result of `text()` until closed. With a token, only to clients that send it."""

    def __init__(self, config: Mapping[str, Any], text: Callable[[], str], name: str) -> None:
        host, token = config["metrics.host"], config["application.server.token"] or None
        tls = server_tls(config)
        confidential = tls is not None or config["application.server.plaintext.allowed"]
        self._socket = _bind(host, config["metrics.port"], token, confidential)
        self._pool = ReadPool("metrics", 2, 2)
        app = Starlette(routes=[metrics_route(self._pool, text)], exception_handlers={HTTPException: refused, 500: failed})
        context = None if tls is None else tls.for_server()
        self._server = QueryServer(self._socket, SafeHeaders(Guard(app, token, host)), context, name=name)
        self._server.start()
        _log.info("Metrics are served at %s://%s/metrics", "http" if tls is None else "https", HostInfo(host, self.port))

    @property
    def port(self) -> int:
        """The port, also if the configured port is 0."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._server.close()
        self._pool.close()


def _bind(host: str, port: int, token: str | None, confidential: bool) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigError(
            f"metrics.host = {host!r} cannot be resolved ({exc}). Set it to a name or an address of this host"
        ) from exc
    if not all(is_loopback(str(info[4][0])) for info in found):
        if not token:
            raise ConfigError(
                f"metrics.host = {host!r} can be reached from other hosts: set application.server.token to a secret that "
                "Prometheus sends (authorization: credentials_file), or use 127.0.0.1"
            )
        if not confidential:
            raise ConfigError(
                f"metrics.host = {host!r} can be reached from other hosts, and the token would cross the network in plain text: "
                "set application.server.ssl.certificate.location to a PEM file; or, if a proxy or a mesh in front of it "
                "encrypts, application.server.plaintext.allowed = true"
            )
    family, _, _, _, address = sorted(found, key=lambda info: info[0] != socket.AF_INET)[0]
    return listen(f"metrics.host = {host!r}, metrics.port = {port}", family, address)
