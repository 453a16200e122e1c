"""The query server's socket and thread: uvicorn in the driver."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
import threading
from typing import Any

import uvicorn

from penstock.client.web.asgi import App
from penstock.client.web.connections import KEEP_ALIVE_SECONDS, Connection, ConnectionServer
from penstock.errors import ConfigError, StreamsError
from penstock.peers.addresses import advertised, is_loopback, refuse_unreachable
from penstock.query.metadata import HostInfo

_log = logging.getLogger(__name__)

MAX_HEADER_BYTES = 32 * 1024
_BACKLOG = 512


def bind(server: str, token: str | None, confidential: bool = False) -> tuple[socket.socket, HostInfo]:
    """Return a listening socket for `application.server`, and its address for others.

    If the host name is not this host's (behind a proxy or in a container), it listens on all addresses. A server that other
    hosts can reach needs a token, and must be `confidential`: encrypted by TLS here or by a proxy.
    """
    try:
        wanted = advertised(server.strip(), any_port=True)
    except ValueError as exc:
        raise _not_reachable(server, exc) from exc
    try:
        found = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigError(f"application.server = {server!r}: the host cannot be resolved ({exc}); expected host:port") from exc
    try:
        for info in found:
            refuse_unreachable(ipaddress.ip_address(str(info[4][0]).partition("%")[0]))
    except ValueError as exc:
        raise _not_reachable(server, exc) from exc
    family, _, _, _, address = sorted(found, key=lambda info: info[0] != socket.AF_INET)[0]
    if not all(is_loopback(str(info[4][0])) for info in found):
        if not token:
            raise ConfigError(
                f"application.server = {server!r} can be reached from other hosts: set application.server.token to a secret that "
                "callers have to send, or use localhost"
            )
        if not confidential:
            raise ConfigError(
                f"application.server = {server!r} can be reached from other hosts, and state and token would cross the network "
                "in plain text: set application.server.ssl.certificate.location to a PEM file; or, if a proxy or a mesh in "
                "front of it encrypts, application.server.plaintext.allowed = true"
            )
    listening = listen(f"application.server = {server!r}", family, address, or_anywhere=True)
    return listening, HostInfo(wanted.host, listening.getsockname()[1])


def listen(what: str, family: int, address: Any, *, or_anywhere: bool = False) -> socket.socket:
    """Return a listening socket. `what` names the setting for errors; `or_anywhere` falls back to all addresses."""
    # asyncio disables Nagle's algorithm only if the protocol is named: otherwise 45 ms per request.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listening.bind(address)
        except OSError as exc:
            if exc.errno != errno.EADDRNOTAVAIL or not or_anywhere:
                raise
            listening.bind(("", address[1]))
        listening.listen(_BACKLOG)
    except OSError as exc:
        listening.close()
        raise StreamsError(f"{what}: listening failed ({exc}). Choose another port, or 0 for a free one") from exc
    return listening


def _not_reachable(server: str, reason: ValueError) -> ConfigError:
    return ConfigError(
        f"application.server = {server!r} is not an address that other instances can reach ({reason}). Set host:port with the "
        "name or address under which they reach this instance, for example localhost:8080 if all are on one machine. If it is "
        "not an address of this host, the server listens on all of them"
    )


class QueryServer:
    """Serves an ASGI application on its own thread. All servers of an application have the same limits."""

    def __init__(
        self,
        listening: socket.socket,
        app: App,
        tls: ssl.SSLContext | None = None,
        *,
        name: str = "penstock-query-server",
    ) -> None:
        self._socket = listening
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        config.load()
        config.ssl = tls
        self._server = ConnectionServer(config, listening)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Running requests have a moment to end."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve())
        except Exception:  # noqa: BLE001 - logged; the application continues
            _log.exception("%s ended", self._thread.name)
