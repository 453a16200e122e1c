"""The paths of the query server as a Starlette application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from penstock.client.web.answers import Answers
from penstock.client.web.asgi import App
from penstock.client.web.dead_letters import DeadLetters
from penstock.client.web.errors import HttpError, http_error
from penstock.client.web.events import Viewers
from penstock.client.web.everywhere import BEYOND_HOME
from penstock.client.web.guard import EVENTS_PATH, MAX_BODY, REQUEST_SECONDS, Guard
from penstock.client.web.headers import SafeHeaders
from penstock.client.web.openapi import openapi
from penstock.client.web.page import ASSETS, PAGE, POLICY
from penstock.client.web.peer_gate import PeerGate
from penstock.client.web.read_pools import ReadPool
from penstock.client.web.responses import NO_STORE, dump, error_response, failed, metrics_route, read_in, refused
from penstock.client.web.time_limit import TimeLimit
from penstock.client.web.topics import TopicRecords
from penstock.errors import PenstockError
from penstock.peers.connection import FORWARDED
from penstock.peers.proofs import PeerKeys
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.deadline import Deadline

_log = logging.getLogger(__name__)

# Reads wait for disks and other instances, not for the CPU, so each kind needs few threads, most of which may be used by one
# store. Requests of other instances have their own threads, because two instances that wait for each other would block for
# ever. So have status and metrics, which are needed when something hangs.
_POOLS = {
    "keys": (4, 3),
    "windows": (3, 2),
    "ranges": (3, 2),
    "peers": (4, 3),
    "tables": (2, 2),
    "changes": (1, 1),
    "info": (2, 2),
    "status": (2, 2),
    "metrics": (2, 2),
    "page": (2, 2),
    "letters": (1, 1),
}

# A table leases each partition until it is sent, and leases are limited.
_TABLES = 2


_REPLAY, _PAUSE, _RESUME = "/api/dead-letters/replay", "/api/pause", "/api/resume"

# Files change only with the version, which browsers do not know, so they revalidate them.
_ASSET_HEADERS = {"Cache-Control": "no-cache"}


class Parts(NamedTuple):
    """The parts that answer requests after the start."""

    answers: Answers
    app_info: Callable[[], dict[str, Any]]
    metrics: Callable[[], str]
    document: Callable[[], dict[str, Any]]
    pause: Callable[[bool], dict[str, Any]]
    letters: DeadLetters | None = None
    topics: TopicRecords | None = None


class WebApplication:
    """Answers requests on separate threads, so that they delay neither each other nor the application.

    Before `begin` it serves the console, which shows the progress of `starting`, and 503 for everything else.
    """

    def __init__(
        self,
        token: str | None,
        host: HostInfo,
        keys: PeerKeys | None,
        starting: Callable[[], dict[str, Any]],
        settings: Callable[[], dict[str, Any]],
    ) -> None:
        self._parts: Parts | None = None
        self._starting = starting
        self._tables = 0
        self._pools = {kind: ReadPool(kind, *sizes) for kind, sizes in _POOLS.items()}
        self._viewers = Viewers(self._document, self._for_viewers)
        routes = [
            Route("/", self._page),
            *(Route(path, self._asset) for path in ASSETS),
            Route(EVENTS_PATH, self._events),
            Route("/api/app", self._json("status", lambda request, forwarded: self._begun.app_info())),
            Route("/api/settings", self._json("info", lambda request, forwarded: settings())),
            Route("/api/dead-letters", self._json("letters", self._list_dead_letters)),
            Route(_REPLAY, self._replay, methods=["POST"]),
            Route(_PAUSE, self._pause(True), methods=["POST"]),
            Route(_RESUME, self._pause(False), methods=["POST"]),
            Route("/api/topics", self._json("info", lambda request, forwarded: self._topics.list())),
            Route("/api/topics/{topic}/latest", self._json("letters", self._latest_records)),
            Route("/api/stores", self._json("info", lambda request, forwarded: self._answers.stores())),
            Route(
                "/api/stores/{store}", self._json("info", lambda request, _: self._answers.store(request.path_params["store"]))
            ),
            Route("/api/stores/{store}/keys/{key:path}", self._json("keys", self._key, self._key_at_once)),
            Route("/api/stores/{store}/range", self._json("ranges", self._range)),
            Route("/api/stores/{store}/table", self._table),
            Route("/api/stores/{store}/changes", self._changes),
            Route("/api/stores/{store}/windows", self._json("windows", self._all_windows)),
            Route("/api/stores/{store}/windows/{key:path}", self._json("windows", self._windows)),
            Route("/api/stores/{store}/metadata/{key:path}", self._json("keys", self._metadata)),
            metrics_route(self._pools["metrics"], lambda: self._begun.metrics()),
            Route("/openapi.json", self._json("info", lambda request, forwarded: openapi())),
        ]
        starlette = Starlette(routes=routes, exception_handlers={HTTPException: refused, 500: failed})
        starlette.router.redirect_slashes = False  # a missing store name must not redirect to another path
        gate = None if keys is None else PeerGate(keys, host)
        self.asgi: App = SafeHeaders(Guard(starlette, token, host.host, gate, writes=[_REPLAY, _PAUSE, _RESUME]))

    def begin(self, parts: Parts) -> None:
        """Start answering queries."""
        self._parts = parts

    @property
    def _begun(self) -> Parts:
        if self._parts is None:
            waiting = self._starting()["app"]["waiting"]["0"]
            raise HttpError(503, f"the application is starting: it waits for {waiting}; ask again later")
        return self._parts

    @property
    def _answers(self) -> Answers:
        return self._begun.answers

    def end_streams(self) -> None:
        """End the event streams of open consoles."""
        self._viewers.close()

    def close(self) -> None:
        """Stop the threads."""
        for room in self._pools.values():
            room.close()

    # -- paths ---------------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})

    async def _asset(self, request: Request) -> Response:
        asset = ASSETS[request.url.path]
        return Response(asset.content, media_type=asset.media_type, headers=_ASSET_HEADERS)

    async def _events(self, request: Request) -> Response:
        """Stream the console's document and its changes."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=NO_STORE)
        return self._viewers.response()

    def _document(self) -> dict[str, Any]:
        return self._starting() if self._parts is None else self._parts.document()

    async def _for_viewers(self, call: Callable[[], Any]) -> Any:
        deadline = Deadline(REQUEST_SECONDS)
        try:
            async with TimeLimit(deadline.seconds):
                return await self._pools["page"].run("", deadline, call)
        except TimeoutError as exc:
            raise HttpError(503, "the application takes long to tell how it is") from exc
        finally:
            deadline.give_up()

    def _list_dead_letters(self, request: Request, forwarded: bool) -> Any:
        return self._letters.list(request.query_params.get("topic"))

    @property
    def _letters(self) -> DeadLetters:
        letters = self._begun.letters
        if letters is None:
            raise HttpError(404, "dead letter topics cannot be read here")
        return letters

    def _latest_records(self, request: Request, forwarded: bool) -> Any:
        return self._topics.latest(request.path_params["topic"], request.query_params.get("limit"))

    @property
    def _topics(self) -> TopicRecords:
        topics = self._begun.topics
        if topics is None:
            raise HttpError(404, "topics cannot be read here")
        return topics

    def _pause(self, paused: bool) -> Callable[[Request], Any]:
        """Return the endpoint that pauses or resumes this instance. The guard checks permissions; the body is ignored."""

        async def endpoint(request: Request) -> Response:
            try:
                found = await self._in_thread("info", request, lambda: dump(self._begun.pause(paused)))
            except Exception as exc:  # noqa: BLE001 - sent to the client
                return error_response(http_error(exc))
            return Response(found, media_type="application/json", headers=NO_STORE)

        return endpoint

    async def _replay(self, request: Request) -> Response:
        """Write a dead letter back to its source topic. The guard checks permissions."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                return error_response(HttpError(413, f"more than {MAX_BODY} bytes were sent"))
        try:
            found = await self._in_thread("letters", request, lambda: dump(self._letters.replay(body)))
        except Exception as exc:  # noqa: BLE001 - sent to the client
            return error_response(http_error(exc))
        return Response(found, media_type="application/json", headers=NO_STORE)

    async def _table(self, request: Request) -> Response:
        """Stream this instance's part of a store as Arrow, for tables on other instances."""
        if self._tables >= _TABLES:
            return error_response(HttpError(503, f"{_TABLES} tables are being read; ask again later"))
        self._tables += 1
        name, parameters = request.path_params["store"], _parameters(request)
        deadline = Deadline(REQUEST_SECONDS)
        try:
            parts = await self._read(
                "tables", request, deadline, lambda: _opened(self._answers.table(name, parameters), deadline)
            )
        except Exception as exc:  # noqa: BLE001 - sent to the client
            self._tables -= 1
            return error_response(http_error(exc))
        except BaseException:
            self._tables -= 1
            raise
        return _Parts(parts, deadline, lambda call: self._read("tables", request, deadline, call), self._table_sent)

    async def _changes(self, request: Request) -> Response:
        """A page of the changes of a store, as an Arrow stream."""
        name, parameters = request.path_params["store"], _parameters(request)
        try:
            found = await self._in_thread("changes", request, lambda: self._answers.changes(name, parameters))
        except Exception as exc:  # noqa: BLE001 - sent to the client
            return error_response(http_error(exc))
        return Response(found, media_type=_Parts.media_type, headers=NO_STORE)

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

    def _all_windows(self, request: Request, forwarded: bool) -> Any:
        return self._answers.all_windows(request.path_params["store"], _parameters(request))

    def _metadata(self, request: Request, forwarded: bool) -> Any:
        return self._answers.metadata(request.path_params["store"], _tail(request, "metadata"))

    def _json(
        self, kind: str, answer: Callable[[Request, bool], Any], at_once: Callable[[Request, bool], Any] | None = None
    ) -> Callable[[Request], Any]:
        """Return an endpoint that answers on a thread. Results of `at_once` need no thread, which costs more than a key
        lookup.
        """

        async def endpoint(request: Request) -> Response:
            forwarded = FORWARDED.lower() in request.headers
            room = "peers" if forwarded and kind not in ("info", "status") else kind
            try:
                known = None if at_once is None else at_once(request, forwarded)
                found = (
                    dump(known)
                    if known is not None
                    else await self._in_thread(room, request, lambda: dump(answer(request, forwarded)))
                )
            except Exception as exc:  # noqa: BLE001 - sent to the client
                return error_response(http_error(exc))
            return Response(found, media_type="application/json", headers=NO_STORE)

        return endpoint

    async def _in_thread(self, kind: str, request: Request, call: Callable[[], Any]) -> Any:
        deadline = Deadline(REQUEST_SECONDS)
        try:
            return await self._read(kind, request, deadline, call)
        finally:
            deadline.give_up()

    async def _read(self, kind: str, request: Request, deadline: Deadline, call: Callable[[], Any]) -> Any:
        return await read_in(self._pools[kind], request, deadline, call)


class _Table:
    """The parts of a table, read on threads one after another. The last user, reader or client, closes it."""

    def __init__(self, parts: Generator[bytes, None, None]) -> None:
        self._parts = parts
        self._reading = threading.Lock()
        self._closed = False

    def next(self) -> bytes | None:
        """Return the next part, None at the end."""
        try:
            with self._reading:
                return None if self._closed else next(self._parts, None)
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Return the leases, now or when the current read has ended."""
        self._closed = True
        if self._reading.acquire(blocking=False):
            try:
                self._parts.close()
            finally:
                self._reading.release()


def _opened(parts: Generator[bytes, None, None], deadline: Deadline) -> _Table:
    """Return the table. If its client has already disconnected, close it."""
    table = _Table(parts)
    if deadline.is_over:
        table.close()
        deadline.check()
    return table


class _Parts(Response):
    """Sends the parts of a table.

    Leases are returned at the end, also if the client stops reading: Starlette's own response would leave that to the garbage
    collector.
    """

    media_type = "application/vnd.apache.arrow.stream"

    def __init__(
        self,
        parts: _Table,
        deadline: Deadline,
        read: Callable[[Callable[[], Any]], Awaitable[Any]],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(headers=NO_STORE)
        del self.headers["content-length"]
        self._parts, self._deadline, self._read, self._on_end = parts, deadline, read, on_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (part := await self._read(self._parts.next)) is not None:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except (HttpError, PenstockError) as exc:  # an incomplete Arrow stream tells the client
            _log.info("a table was not sent to its end: %s", exc)
        finally:
            self._on_end()
            self._deadline.give_up()
            self._parts.close()


def _tail(request: Request, word: str) -> str:
    """Return the key at the end of the path from the raw bytes. Invalid UTF-8 is refused, not replaced."""
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
        if name in ("from", "to", "limit", "as_of", "stale", "partition", "read", "columns", "offset", "end", BEYOND_HOME)
    }
