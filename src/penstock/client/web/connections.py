"""Connections of the query server: counted from `accept` on, each with time limits.

uvicorn counts a connection only after its TLS handshake, and waits without a limit for a client that does not read:

    accept ──► TLS handshake ──► head of a request ──► answer ──► idle ──► head of the next request …
                HEAD_SECONDS      HEAD_SECONDS           │        KEEP_ALIVE_SECONDS
                                                         ├── being made: the guard's limits
                                                         └── not read by the client: SEND_SECONDS

A connection that exceeds its limit is aborted. At most `MAX_CONNECTIONS` are open. A further one replaces the connection that
has waited longest for its client, so that idle clients do not block others.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.client.web.guard import DEADLINE, SEND_SECONDS
from penstock.runtime.queries.deadline import Deadline

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 256
HEAD_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 15
_ACCEPTS_AT_ONCE = 64
_RETRY_SECONDS = 1.0
_BUSY_SECONDS = 0.05
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connection(H11Protocol):
    """One connection, from `accept` on. `transport` is None until the TLS handshake is complete."""

    def __init__(self, config: uvicorn.Config, server_state: Any, on_lost: Callable[[Connection], None]) -> None:
        super().__init__(config, server_state, {})
        self.handshake: asyncio.Task[None] | None = None
        self._on_lost = on_lost
        self._idle = False
        self._next_request_is_due = False
        self.waits_since = self.loop.time()

    @property
    def is_answering(self) -> bool:
        """True while the server works on an answer."""
        return self.cycle is not None and not self.cycle.response_complete and not self.is_unread

    @property
    def is_unread(self) -> bool:
        """True while the server waits for the client to read."""
        return self.flow is not None and (self.flow.write_paused or self.transport.is_closing())

    def is_overdue(self, now: float) -> bool:
        """Return True if the server has waited too long for the client."""
        return not self.is_answering and now - self.waits_since > self._limit

    @property
    def _limit(self) -> float:
        if self.is_unread:
            return SEND_SECONDS
        return KEEP_ALIVE_SECONDS if self._idle else HEAD_SECONDS

    def abort(self) -> None:
        """Close the connection now, with unread data."""
        self._on_lost(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    # -- called by the event loop and by uvicorn -----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request, whose head has a time limit."""
        if self._idle:
            self._idle, self.waits_since = False, self.loop.time()
        super().data_received(data)

    def pause_writing(self) -> None:
        """Start the time limit for the client to read."""
        super().pause_writing()
        self.waits_since = self.loop.time()

    def resume_writing(self) -> None:
        """Continue sending, and start a waiting next request."""
        super().resume_writing()
        self.waits_since = self.loop.time()
        if self._next_request_is_due:
            self._next_request_is_due = False
            super().on_response_complete()

    def on_response_complete(self) -> None:
        """Start the next request after the client has read enough of this answer."""
        self._idle, self.waits_since = True, self.loop.time()
        if self.flow.write_paused and not self.transport.is_closing():
            self._next_request_is_due = True
        else:
            super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and cancel its request."""
        self._next_request_is_due = False
        super().connection_lost(exc)
        self._on_lost(self)
        deadline = self.scope.get(DEADLINE) if self.scope else None
        if isinstance(deadline, Deadline):
            deadline.give_up()


class ConnectionServer(uvicorn.Server):
    """uvicorn with its own `accept` loop."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket) -> None:
        super().__init__(config)
        self._listening = listening
        self._open: set[Connection] = set()

    def install_signal_handlers(self) -> None:
        """Do nothing: signals belong to the application."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting."""
        await self.lifespan.startup()
        self.servers = []
        self._listening.setblocking(False)
        self._begin_to_accept()
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Abort connections that exceed their limits. Called ten times a second."""
        now = asyncio.get_running_loop().time()
        for connection in [one for one in self._open if one.is_overdue(now)]:
            connection.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, give requests a moment, and abort the rest."""
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        await super().shutdown([])
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # transports close their sockets in the next iteration

    def _begin_to_accept(self) -> None:
        if self._listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTS_AT_ONCE):
            if len(self._open) >= MAX_CONNECTIONS and not self._waiting():
                self._accept_after(_BUSY_SECONDS)  # all connections are being answered; a new client waits in the backlog
                return
            try:
                connected, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if exc.errno not in _OUT_OF_RESOURCES:
                    raise
                _log.warning("Accepting a connection failed: %s. An idle connection is closed instead", exc)
                self._drop_one()
                self._accept_after(_RETRY_SECONDS)
                return
            if len(self._open) >= MAX_CONNECTIONS:
                self._drop_one()
            connection = Connection(self.config, self.server_state, self._open.discard)
            self._open.add(connection)
            connection.handshake = loop.create_task(self._greet(connection, connected))
            connection.handshake.add_done_callback(partial(self._greeted, connection, connected))

    def _accept_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listening)
        loop.call_later(seconds, self._begin_to_accept)

    def _greeted(self, connection: Connection, connected: socket.socket, _: object) -> None:
        """Close the socket of a failed or cancelled handshake."""
        if connection.transport is None:
            self._open.discard(connection)
            connected.close()

    async def _greet(self, connection: Connection, connected: socket.socket) -> None:
        tls = self.config.ssl
        seconds = None if tls is None else HEAD_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, connected, ssl=tls, ssl_handshake_timeout=seconds
            )
        except Exception as exc:  # noqa: BLE001 - the client's fault: no TLS, or a refused version or certificate
            _log.debug("a connection ended before its first request: %s", exc)

    def _waiting(self) -> list[Connection]:
        return [connection for connection in self._open if not connection.is_answering]

    def _drop_one(self) -> None:
        if waiting := self._waiting():
            dropped = min(waiting, key=lambda connection: connection.waits_since)
            dropped.abort()
            self._open.discard(dropped)  # at once, so that MAX_CONNECTIONS is never exceeded
