"""A real query server over real stores, without Kafka and Spark."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

from penstock import StreamsConfig
from penstock.client.web.service import WebService
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
    ) -> None:
        config = {"application.id": "app", "bootstrap.servers": "localhost:9", "application.server": f"localhost:{port}"}
        self._failure = failure
        self.service = WebService(StreamsConfig({**config, **({"application.server.token": token} if token else {})}))
        self.address = str(self.service.host)
        self._folder, self._own = folder, own
        self.world: World

    def serve(self, hosts: dict[int, str] | None = None) -> Served:
        self.world = World(self._folder, self._own, hosts or dict.fromkeys(range(3), self.address))
        self.world.open_all()
        self.world.commit()
        world: Any = self.world
        self.service.serve(
            world.queries,
            world.topology.describe(),
            lambda: world.state,
            lambda: self._failure,
            world.fleet,
            world.conductor,
            lambda partitions: {},
            None,
        )
        return self

    def get(
        self, target: str, headers: dict[str, str] | None = None, method: str = "GET", *, read: bool = True
    ) -> tuple[int, Any]:
        """Status and JSON (or text) of an answer; only the status where it is not read."""
        connection = http.client.HTTPConnection(self.service.host.host, self.service.host.port, timeout=30)
        try:
            connection.putrequest(method, target, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
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
