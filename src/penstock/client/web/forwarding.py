"""Requests to other instances."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from penstock.client.web.errors import HttpError
from penstock.clock import monotonic
from penstock.errors import PenstockError
from penstock.peers.connection import PeerConnection
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from penstock.query.server_tls import ServerTls, distrust
from penstock.runtime.queries.deadline import current

_TIMEOUT = 5.0
_DOWN_SECONDS = 0.5
_MAX_ANSWER = 64 * 1024 * 1024


class Forwarder:
    """Keeps connections to other instances. A forwarded request is never forwarded again.

    An instance must prove that it knows the token before it gets a request.
    """

    def __init__(self, keys: PeerKeys | None, tls: ServerTls | None = None) -> None:
        self._keys = keys
        self._tls = tls
        self._kept: dict[HostInfo, list[PeerConnection]] = {}
        self._down: dict[HostInfo, float] = {}
        self._lock = threading.Lock()
        self._closed = False

    def get(self, host: HostInfo, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Return the other instance's answer. Raises its error, or 503 if it cannot be reached."""
        target = f"{path}?{urlencode(dict(parameters))}" if parameters else path
        try:
            self._refuse_down(host)
            status, body = self._ask(host, target)
        except (OSError, http.client.HTTPException) as exc:
            distrusted = distrust(exc)
            if distrusted is not None:
                raise HttpError(502, f"the instance at {host} that has this is not asked: {distrusted}") from exc
            raise HttpError(503, f"the instance at {host} that has this cannot be reached ({exc}); ask again later") from exc
        try:
            answer: Any = json.loads(body)
        except (ValueError, RecursionError) as exc:
            raise HttpError(502, f"the instance at {host} answered with status {status} and no JSON") from exc
        if not isinstance(answer, dict):
            raise HttpError(502, f"the instance at {host} answered with status {status} and something else than was asked for")
        if status != 200:
            raise HttpError(status, str(answer.get("error", answer)), answer.get("partitions"))
        return answer

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, {}
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def _refuse_down(self, host: HostInfo) -> None:
        """Fail at once if an instance did not answer a moment ago, because waiting threads are limited."""
        if monotonic() < self._down.get(host, 0.0):
            raise OSError("it did not answer a moment ago")

    def _ask(self, host: HostInfo, target: str) -> tuple[int, bytes]:
        while True:
            with self._lock:
                known = self._kept[host].pop() if self._kept.get(host) else None
            connection = known
            try:
                if connection is None:
                    context = None if self._tls is None else self._tls.for_peers()
                    connection = PeerConnection(host, self._keys, current().limit(_TIMEOUT), context)
                connection.wait_at_most(current().limit(_TIMEOUT))
                found = connection.get(target, _MAX_ANSWER)
            except PenstockError:  # the caller gave up; closing the connection cancels the request
                if connection is not None:
                    connection.close()
                raise
            except (OSError, http.client.HTTPException):
                if connection is not None:
                    connection.close()
                current().check()
                if known is None:
                    self._down[host] = monotonic() + _DOWN_SECONDS
                    raise
                continue  # the peer closed an idle connection or restarted
            self._keep(host, connection)
            return found

    def _keep(self, host: HostInfo, connection: PeerConnection) -> None:
        with self._lock:
            if not self._closed:
                self._kept.setdefault(host, []).append(connection)
                return
        connection.close()
