"""A small server for metrics alone: `GET /metrics`, on the loopback address unless `metrics.host` says otherwise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.client.metrics.prometheus import CONTENT_TYPE
from penstock.errors import StreamsError

_log = logging.getLogger(__name__)


class MetricsServer:
    """Answers with what `text()` gives, until closed."""

    def __init__(self, host: str, port: int, text: Callable[[], str], name: str) -> None:
        class Handler(_Handler):
            render = staticmethod(text)

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as exc:
            raise StreamsError(
                f"metrics cannot be served on {host}:{port}: {exc}; choose another metrics.port, or 0 for one that is free"
            ) from exc
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name=name, daemon=True)
        self._thread.start()
        _log.info("metrics are served at http://%s:%d/metrics", host, self.port)

    @property
    def port(self) -> int:
        """The port, also where a free one was asked for."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    render: Callable[[], str]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self.send_error(404, "only /metrics is here")
            return
        try:
            body = self.render().encode()
        except Exception as exc:  # noqa: BLE001 - the caller is told; the application goes on
            _log.warning("metrics could not be read: %r", exc)
            self.send_error(500, "metrics could not be read")
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("metrics: " + format, *args)
