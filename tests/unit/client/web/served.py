"""A real query server over real stores, without Kafka and Spark."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import StreamsConfig
from penstock.client.web.running import RunningApplication
from penstock.client.web.service import WebService
from penstock.query.server_tls import peer_connection
from tests.unit.client.queries.world import World


class Served:
    """A world behind a server on a port of its own."""

    def __init__(
        self,
        folder: Path,
        token: str | None = None,
        own: list[int] | None = None,
        port: int = 0,
        failure: BaseException | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        base = {"application.id": "app", "bootstrap.servers": "localhost:9", "application.server": f"localhost:{port}"}
        self._failure = failure
        self.config = StreamsConfig({**base, **({"application.server.token": token} if token else {}), **(config or {})})
        self.service = WebService(self.config)
        self.address = str(self.service.host)
        self._folder, self._own = folder, own
        self.world: World

    def serve(self, hosts: dict[int, str] | None = None, readings: Any = dict, letters: Any = None, **running: Any) -> Served:
        self.world = World(self._folder, self._own, hosts or dict.fromkeys(range(3), self.address))
        self.world.open_all()
        self.world.commit()
        world: Any = self.world
        application = RunningApplication(
            world.queries,
            world.topology.describe(),
            world.spark_threads,
            world.loop,
            state=lambda: world.state,
            failure=lambda: self._failure,
            lags=world.loop.lags,
            **running,
        )
        self.service.serve(application, None, readings, letters)
        return self

    def get(
        self,
        target: str,
        headers: dict[str, str] | None = None,
        method: str = "GET",
        *,
        read: bool = True,
        tls: ssl.SSLContext | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON (or text) of an answer; only the status where it is not read."""
        connection = peer_connection(self.service.host.host, self.service.host.port, tls, 30)
        try:
            connection.putrequest(method, target, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            if not read:
                return response.status, None
            body = response.read()
        finally:
            connection.close()
        if response.getheader("content-type", "").startswith("application/json"):
            return response.status, json.loads(body) if body else None
        return response.status, body.decode()

    def close(self) -> None:
        self.service.close()
        self.world.close()
