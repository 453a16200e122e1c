"""Server-sent events for open consoles: changes of the document once a second, and nothing without changes.

The document is made once for all consoles, and only while one is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from penstock.client.web.console import now_ms
from penstock.client.web.differences import difference
from penstock.client.web.errors import HttpError
from penstock.client.web.guard import DEADLINE
from penstock.client.web.responses import NO_STORE
from penstock.runtime.queries.deadline import Deadline

_log = logging.getLogger(__name__)

EVERY_SECONDS = 1.0
_STILL_HERE_SECONDS = 10.0
_LONGEST_SECONDS = 12 * 3600.0

Document = dict[str, Any]
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Viewers:
    """All open consoles. Used on the server's event loop, except for `close`."""

    def __init__(self, document: Callable[[], Document], in_thread: InThread, every: float = EVERY_SECONDS) -> None:
        self._document = document
        self._in_thread = in_thread
        self._every = every
        self._made: Document = {}
        self._step: tuple[Document, Document, bytes] | None = None
        self._made_at = float("-inf")
        self._making: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: set[asyncio.Event] = set()
        self._closed = False

    def response(self) -> Response:
        """Return the event stream for a new console."""
        return _Stream(self)

    def close(self) -> None:
        """End all streams. Any thread may call it."""
        self._closed = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for end in self._ends:
            end.set()

    async def tell(self, send: Callable[[bytes], Awaitable[None]], gone: asyncio.Event) -> None:
        """Send the document, then its changes, until either side ends."""
        self._loop = asyncio.get_running_loop()
        self._ends.add(gone)
        seen: Document = {}
        told_at = 0.0
        ended = asyncio.ensure_future(_until(gone))
        try:
            while not gone.is_set() and not self._closed:
                event = await self._next(seen)
                now = self._loop.time()
                if event is not None:
                    seen, told_at = self._made, now
                    await send(event)
                elif now - told_at >= _STILL_HERE_SECONDS:
                    told_at = now
                    await send(b"event: time\ndata: %d\n\n" % now_ms())
                await asyncio.wait([ended], timeout=self._every)
        finally:
            ended.cancel()
            self._ends.discard(gone)

    async def _next(self, seen: Document) -> bytes | None:
        """Return the next event for a console with document `seen`, None without changes."""
        await self._refresh()
        made, step = self._made, self._step
        if seen is made:
            return None
        if step is not None and step[0] is seen and step[1] is made:
            return step[2] or None
        found: bytes = await self._in_thread(lambda: _event(seen, made))
        return found or None

    async def _refresh(self) -> None:
        assert self._loop is not None
        if self._loop.time() - self._made_at < 0.9 * self._every and self._made:
            return
        if self._making is None:
            self._making = asyncio.ensure_future(self._make())
            self._making.add_done_callback(self._was_made)
        await asyncio.shield(self._making)

    def _was_made(self, task: asyncio.Task[None]) -> None:
        self._making = None
        if not task.cancelled():
            task.exception()  # retrieved, because the waiting callers also get it

    async def _make(self) -> None:
        before = self._made

        def make() -> tuple[Document, bytes]:
            document = self._document()
            return document, _event(before, document)

        document, event = await self._in_thread(make)
        assert self._loop is not None
        self._made_at = self._loop.time()
        if event:  # without changes the consoles' document remains current
            self._made, self._step = document, (before, document, event)


async def _until(gone: asyncio.Event) -> None:
    await gone.wait()


def _event(before: Document, after: Document) -> bytes:
    """Return the changes as an event, empty without changes. Without a previous document it contains everything."""
    patch = difference(before, after)
    if not patch:
        return b""
    # `\u2028` is no line end for events, but `\n` is. JSON without indentation has none.
    data = json.dumps({"time": now_ms(), "patch": patch}, separators=(",", ":"), allow_nan=False).encode()
    return b"event: %s\ndata: %s\n\n" % (b"change" if before else b"whole", data)


class _Stream(Response):
    media_type = "text/event-stream"

    def __init__(self, viewers: Viewers) -> None:
        super().__init__(headers={**NO_STORE, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._viewers = viewers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        gone, deadline = asyncio.Event(), Deadline(_LONGEST_SECONDS)
        deadline.on_give_up = gone.set
        scope[DEADLINE] = deadline  # cancelled when the client disconnects
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def pass_on(event: bytes) -> None:
            await send({"type": "http.response.body", "body": event, "more_body": True})

        try:
            await self._viewers.tell(pass_on, gone)
        except TimeoutError:
            raise  # the client has stopped reading; the guard closes the connection
        except Exception as exc:  # noqa: BLE001 - sent to the client, which reconnects
            if not isinstance(exc, HttpError):
                _log.warning("Making the console's document failed", exc_info=exc)
            reason = exc.reason if isinstance(exc, HttpError) else "see the application's log"
            with contextlib.suppress(Exception):
                await pass_on(b"event: trouble\ndata: %s\n\n" % json.dumps(reason).encode())
        with contextlib.suppress(Exception):
            await send({"type": "http.response.body", "body": b""})
