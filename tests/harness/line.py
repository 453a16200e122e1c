"""A line to a port of this machine that can be cut, slowed down and mended, without rights and without anybody being told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from tests.harness.waiting import LIMIT

_HOST = "127.0.0.1"
_PIECE = 65_536


class Line:
    """Forwards what comes to `port` to another port, and back; a context manager.

    While it is cut, connections stay and nothing passes: neither side hears of it, as when a cable is pulled. What was on its
    way arrives when it is mended. While it is slow, everything takes `seconds` longer, each way.
    """

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.port = 0
        self._delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._open: asyncio.Event | None = None
        self._connections: set[asyncio.Task[Any]] = set()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, name="line", daemon=True)
        self._thread.start()
        assert self._listens.wait(LIMIT), "the line did not open"

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> None:
        """Nothing passes from now on."""
        self._call("clear")

    def slow(self, seconds: float) -> None:
        """Everything takes longer from now on, each way."""
        self._delay = seconds

    def mend(self) -> None:
        """As if nothing had been."""
        self._delay = 0.0
        self._call("set")

    def close(self) -> None:
        """End it with all connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT)

    def _call(self, what: str) -> None:
        assert self._open is not None
        self._loop.call_soon_threadsafe(getattr(self._open, what))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._open = asyncio.Event()
        self._open.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, _HOST, 0))
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._open is not None
        far: asyncio.StreamWriter | None = None
        pumps: list[asyncio.Task[None]] = []
        try:
            await self._open.wait()
            far_reader, far = await asyncio.open_connection(_HOST, self.target)
            pumps = [asyncio.ensure_future(self._pump(reader, far)), asyncio.ensure_future(self._pump(far_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # nobody listens there: who is connected sees the end of it
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (writer, far):
                if end is not None:
                    end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._open is not None
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
