"""The paths of the query server, as a Starlette application."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from penstock.client.web.answers import Answers
from penstock.client.web.deadline import Deadline
from penstock.client.web.errors import HttpError, http_error
from penstock.client.web.guard import REQUEST_SECONDS, App, Guard
from penstock.client.web.headers import SafeHeaders
from penstock.client.web.openapi import openapi
from penstock.client.web.page import PAGE, POLICY
from penstock.client.web.peer_gate import PeerGate
from penstock.peers.connection import FORWARDED
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo

_log = logging.getLogger(__name__)

# Readers wait for disks and for other instances, not for the processor: a few threads are enough for all of them.
_THREADS = 8

# A table holds a view of each partition until it is sent; others need some of the few there can be.
_TABLES = 2


class WebApplication:
    """Answers requests on threads of its own, so that none holds up another, nor the application."""

    def __init__(
        self,
        answers: Answers,
        app_info: Callable[[], dict[str, Any]],
        metrics: Callable[[], str],
        token: str | None,
        host: HostInfo,
        keys: PeerKeys | None = None,
    ) -> None:
        self._answers = answers
        self._app_info = app_info
        self._metrics = metrics
        self._tables = 0
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-http")
        routes = [
            Route("/", self._page),
            Route("/api/app", self._json(lambda request, forwarded: self._app_info())),
            Route("/api/stores", self._json(lambda request, forwarded: answers.stores())),
            Route("/api/stores/{store}/keys/{key:path}", self._json(self._key, self._key_at_once)),
            Route("/api/stores/{store}/range", self._json(self._range)),
            Route("/api/stores/{store}/table", self._table),
            Route("/api/stores/{store}/windows/{key:path}", self._json(self._windows)),
            Route("/api/stores/{store}/metadata/{key:path}", self._json(self._metadata)),
            Route("/metrics", self._prometheus),
            Route("/openapi.json", self._json(lambda request, forwarded: openapi())),
        ]
        starlette = Starlette(routes=routes, exception_handlers={HTTPException: _refused, 500: _failed})
        gate = None if keys is None else PeerGate(keys, host)
        self.asgi: App = SafeHeaders(Guard(starlette, token, host.host, gate))

    def close(self) -> None:
        """Answer no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- paths ---------------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})

    async def _prometheus(self, request: Request) -> Response:
        try:
            text = await self._in_thread(self._metrics)
        except Exception as exc:  # noqa: BLE001 - told to the client
            return _error(http_error(exc))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4", headers=_NO_STORE)

    async def _table(self, request: Request) -> Response:
        """What this instance has of a store, as an Arrow stream: for other instances, whose tables show all of it."""
        if self._tables >= _TABLES:
            return _error(HttpError(503, f"{_TABLES} tables are being read; ask again later"))
        self._tables += 1
        try:
            parts = await self._in_thread(lambda: self._answers.table(request.path_params["store"], _parameters(request)))
        except Exception as exc:  # noqa: BLE001 - told to the client
            self._tables -= 1
            return _error(http_error(exc))
        except BaseException:
            self._tables -= 1
            raise
        return _Parts(parts, self._threads, self._table_sent)

    def _table_sent(self) -> None:
        self._tables -= 1

    def _key(self, request: Request, forwarded: bool) -> Any:
        return self._answers.key(request.path_params["store"], _tail(request, "keys"), _parameters(request), forwarded)

    def _key_at_once(self, request: Request, forwarded: bool) -> Any:
        return self._answers.key_at_once(request.path_params["store"], _tail(request, "keys"), _parameters(request), forwarded)

    def _range(self, request: Request, forwarded: bool) -> Any:
        return self._answers.range(request.path_params["store"], _parameters(request), forwarded)

    def _windows(self, request: Request, forwarded: bool) -> Any:
        return self._answers.windows(request.path_params["store"], _tail(request, "windows"), _parameters(request), forwarded)

    def _metadata(self, request: Request, forwarded: bool) -> Any:
        return self._answers.metadata(request.path_params["store"], _tail(request, "metadata"))

    def _json(
        self, answer: Callable[[Request, bool], Any], at_once: Callable[[Request, bool], Any] | None = None
    ) -> Callable[[Request], Any]:
        """An endpoint that answers on a thread, which costs more than to look up a key: what `at_once` can tell needs none."""

        async def endpoint(request: Request) -> Response:
            forwarded = FORWARDED.lower() in request.headers
            try:
                known = None if at_once is None else at_once(request, forwarded)
                found = _dump(known) if known is not None else await self._in_thread(lambda: _dump(answer(request, forwarded)))
            except Exception as exc:  # noqa: BLE001 - told to the client
                return _error(http_error(exc))
            return Response(found, media_type="application/json", headers=_NO_STORE)

        return endpoint

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        try:
            async with Deadline(REQUEST_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except TimeoutError as exc:
            raise HttpError(503, f"the answer took longer than {REQUEST_SECONDS:.0f} s; ask for less, or later") from exc


class _Parts(Response):
    """Sends the parts of a table one after the other.

    Its views are given back at the end, at once also where the client does not read to it: Starlette's own would leave that to
    the garbage collector.
    """

    media_type = "application/vnd.apache.arrow.stream"

    def __init__(self, parts: Generator[bytes, None, None], threads: ThreadPoolExecutor, on_end: Callable[[], None]) -> None:
        super().__init__(headers=_NO_STORE)
        del self.headers["content-length"]
        self._parts, self._threads, self._on_end = parts, threads, on_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (part := await loop.run_in_executor(self._threads, next, self._parts, None)) is not None:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._on_end()
            with contextlib.suppress(RuntimeError):  # closed while the server is, or a part is being read: it ends then
                loop.run_in_executor(self._threads, self._parts.close)


_NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def _tail(request: Request, word: str) -> str:
    """The key at the end of the path, from the bytes that were sent: what is not UTF-8 is refused, not replaced."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    parts = raw.partition(b"?")[0].split(b"/", 5)
    try:
        return unquote_to_bytes(parts[5] if len(parts) > 5 else b"").decode()
    except UnicodeDecodeError as exc:
        raise HttpError(400, f"the key after /{word}/ is not UTF-8: {exc}") from exc


def _parameters(request: Request) -> dict[str, str]:
    return {
        name: value
        for name, value in request.query_params.items()
        if name in ("from", "to", "limit", "as_of", "stale", "partition")
    }


def _dump(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _error(error: HttpError) -> Response:
    if error.status >= 500:
        _log.info("a query could not be answered: %s", error.reason)
    return Response(_dump({"error": error.reason}), error.status, headers=_NO_STORE, media_type="application/json")


async def _refused(request: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    reasons = {404: f"there is nothing at {request.url.path}; see /openapi.json", 405: "queries only read: use GET"}
    return _error(HttpError(status, reasons.get(status, str(exc))))


async def _failed(request: Request, exc: Exception) -> Response:
    _log.warning("a query failed", exc_info=exc)
    return _error(HttpError(500, "the query failed; the application's log says why"))
