"""A host that claims to be an instance: it records all it is sent, and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock import HostInfo

Answer = tuple[int, dict[str, str], bytes]


class FakePeer:
    """`answer(path, headers)` says what it answers; a context manager."""

    def __init__(self, answer: Callable[[str, dict[str, str]], Answer]) -> None:
        self.heard: list[str] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                peer.heard.append(f"{self.requestline}\n{self.headers}")
                status, headers, body = answer(self.path, dict(self.headers.items()))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = HostInfo("localhost", self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> FakePeer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
