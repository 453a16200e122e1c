"""The query server's socket and thread: uvicorn in the driver, beside the application."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
import threading
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.client.web.asgi import App
from penstock.client.web.guard import PATIENCE
from penstock.errors import ConfigError, StreamsError
from penstock.peers.addresses import advertised, is_loopback, refuse_unreachable
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.patience import Patience

_log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 256
_HEADER_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 15
_MAX_HEADER_BYTES = 32 * 1024


def bind(server: str, token: str | None, confidential: bool = False) -> tuple[socket.socket, HostInfo]:
    """A listening socket for `application.server`, and the address others reach it at.

    A host that is not this host's own (behind a proxy or in a container) listens on all of its addresses. Whatever others can
    reach needs a token, and has to be `confidential`: encrypted here, or by somebody who was asked to.
    """
    try:
        wanted = advertised(server.strip(), any_port=True)
    except ValueError as exc:
        raise _not_reachable(server, exc) from exc
    try:
        found = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigError(f"application.server = {server!r}: the host is not known ({exc}); expected host:port") from exc
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
                "in plain text: set application.server.ssl.certificate.location to a PEM file; or, where a proxy or a mesh in "
                "front of it encrypts, application.server.plaintext.allowed = true"
            )
    listening = listen(f"application.server = {server!r}", family, address, or_anywhere=True)
    return listening, HostInfo(wanted.host, listening.getsockname()[1])


def listen(what: str, family: int, address: Any, *, or_anywhere: bool = False) -> socket.socket:
    """A listening socket; `what` names the setting, `or_anywhere` takes all addresses where that one is not this host's."""
    # asyncio sends small answers at once only where the protocol is named: 45 ms a request otherwise.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listening.bind(address)
        except OSError as exc:
            if exc.errno != errno.EADDRNOTAVAIL or not or_anywhere:
                raise
            listening.bind(("", address[1]))
        listening.listen(128)
    except OSError as exc:
        listening.close()
        raise StreamsError(f"{what}: cannot listen there ({exc}); choose another port, or 0 for one that is free") from exc
    return listening


def _not_reachable(server: str, reason: ValueError) -> ConfigError:
    return ConfigError(
        f"application.server = {server!r} is not an address that other instances can reach ({reason}): set host:port with the "
        "name or address under which they reach this one, for example localhost:8080 where all are on one machine; where it is "
        "not an address of this host, the server listens on all of them"
    )


class QueryServer:
    """Serves an ASGI application on a thread of its own; every server of an application is one, with the same limits."""

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
            http=_ImpatientProtocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=2 * _MAX_CONNECTIONS,  # never reached: the protocol makes room before
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more; requests that are being answered have a moment."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:  # noqa: BLE001 - told in the log; the application goes on
            _log.exception("%s ended", self._thread.name)

    async def _serve(self) -> None:
        await self._server.serve([self._socket])
        # Connections that had not come as far as a request are nobody's: uvicorn does not know those in the midst of TLS.
        for transport in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
            transport.abort()
        await asyncio.sleep(0)


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Signals belong to the application."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; whoever does not go on with TLS is waited for as long as for a request, not for asyncio's minute."""
        if self.config.ssl is not None:
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=_HEADER_SECONDS)
        await super().startup(sockets)


class _ImpatientProtocol(H11Protocol):
    """Closes connections that begin a request and do not go on with it: they would be kept for ever.

    There are so many connections at most. One more takes the place of the one that has been idle for longest, so that many
    which say nothing keep nobody out who does.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request for a while."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._make_room()
        self._waiting = self.loop.call_later(_HEADER_SECONDS, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request that has begun."""
        super().data_received(data)
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        elif not busy and self._waiting is None:
            self._waiting = self.loop.call_later(_HEADER_SECONDS, self._give_up)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more, and what is being read for this client need not be."""
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)
        patience = self.scope.get(PATIENCE) if self.scope else None
        if isinstance(patience, Patience):
            patience.give_up()

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_idle:
            self.transport.close()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        there = [c for c in self.connections if isinstance(c, _ImpatientProtocol) and not c.transport.is_closing()]
        if len(there) > _MAX_CONNECTIONS:
            idle = [connection for connection in there if connection._is_idle]
            min(idle, key=lambda connection: connection._idle_since).transport.close()  # this one at least is idle
