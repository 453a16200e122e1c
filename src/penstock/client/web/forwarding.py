"""Asking another instance, which has what was asked for."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from penstock.client.web.errors import HttpError
from penstock.errors import PenstockError
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.patience import current
from penstock.spark.state_tables import FORWARDED

_TIMEOUT = 5.0
_DOWN_SECONDS = 0.5
_MAX_ANSWER = 64 * 1024 * 1024


class Forwarder:
    """Keeps connections to other instances; a request that is forwarded once is never forwarded again."""

    def __init__(self, token: str | None) -> None:
        self._headers = {FORWARDED: "1", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._kept: dict[HostInfo, list[http.client.HTTPConnection]] = {}
        self._down: dict[HostInfo, float] = {}
        self._lock = threading.Lock()
        self._closed = False

    def get(self, host: HostInfo, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """The other's answer; its error where it has none, 503 where it cannot be reached."""
        target = f"{path}?{urlencode(dict(parameters))}" if parameters else path
        try:
            self._refuse_down(host)
            status, body = self._ask(host, target)
        except (OSError, http.client.HTTPException) as exc:
            raise HttpError(503, f"the instance at {host} that has this cannot be reached ({exc}); ask again later") from exc
        try:
            answer: dict[str, Any] = json.loads(body)
        except ValueError as exc:
            raise HttpError(502, f"the instance at {host} answered with status {status} and no JSON") from exc
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
        """Nobody waits for an instance that has just not answered: threads that wait answer nobody else."""
        if time.monotonic() < self._down.get(host, 0.0):
            raise OSError("it did not answer a moment ago")

    def _ask(self, host: HostInfo, target: str) -> tuple[int, bytes]:
        while True:
            with self._lock:
                known = self._kept[host].pop() if self._kept.get(host) else None
            connection = known or http.client.HTTPConnection(host.host, host.port)
            try:
                _wait_at_most(connection, current().limit(_TIMEOUT))
                connection.request("GET", target, headers=self._headers)
                response = connection.getresponse()
                body = _body(response)
            except PenstockError:  # who asked has given up; the other side is told by that
                connection.close()
                raise
            except (OSError, http.client.HTTPException):
                connection.close()
                current().check()
                if known is None:
                    self._down[host] = time.monotonic() + _DOWN_SECONDS
                    raise
                continue  # the other side had closed a connection that was kept
            self._keep(host, connection)
            return response.status, body

    def _keep(self, host: HostInfo, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed:
                self._kept.setdefault(host, []).append(connection)
                return
        connection.close()


def _wait_at_most(connection: http.client.HTTPConnection, seconds: float) -> None:
    """For the connection, and for each part of what comes."""
    connection.timeout = max(0.001, seconds)
    if connection.sock is not None:
        connection.sock.settimeout(connection.timeout)


def _body(response: http.client.HTTPResponse) -> bytes:
    """All of an answer, unless it comes so slowly that who asked gives up."""
    parts, left = [], _MAX_ANSWER
    while left and (part := response.read1(min(left, 65_536))):
        current().check()
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
