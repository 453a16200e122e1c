"""Thread pools for reads, a small one for each kind, so that no kind can use all threads.

A read ends soon after its client has given up (`Deadline`). A read that is stuck in an uninterruptible call keeps its thread;
other reads use the remaining threads of the pool, and other kinds have their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from penstock.client.web.errors import HttpError
from penstock.runtime.queries.deadline import Deadline


class ReadPool:
    """The threads of one kind of read, `most` of them for one store. Used on the server's event loop only."""

    def __init__(self, kind: str, size: int, most: int) -> None:
        self._kind, self._size, self._most = kind, size, most
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"penstock-http-{kind}")
        self._inside: dict[Future[Any], tuple[str, Deadline]] = {}
        self._taken: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    @property
    def busy(self) -> int:
        """The number of reading threads."""
        return len(self._inside)

    async def run(self, store: str, deadline: Deadline, call: Callable[[], Any]) -> Any:
        """Run `call` on a free thread. Raises 503 at once if all threads are stuck."""
        if self._has_room(store):
            self._taken[store] += 1
        else:
            self._refuse_where_stuck(store)
            await self._turn(store, deadline)
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(_read, deadline, call)
        except RuntimeError as exc:
            self._taken[store] -= 1
            raise HttpError(503, "the server is being closed") from exc
        self._inside[future] = store, deadline
        future.add_done_callback(lambda _: _on_loop(loop, self._leave, future))
        return await _given_up_with(deadline, asyncio.wrap_future(future))

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _has_room(self, store: str) -> bool:
        return self._taken.total() < self._size and self._taken[store] < self._most

    def _refuse_where_stuck(self, store: str) -> None:
        stuck = [name for name, deadline in self._inside.values() if deadline.is_over]
        if len(stuck) >= self._size or stuck.count(store) >= self._most:
            raise HttpError(503, f"{len(stuck)} readers of {self._kind} are stuck; ask again later")

    async def _turn(self, store: str, deadline: Deadline) -> None:
        """Wait for a thread and reserve it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = store, turn
        self._waiting.append(waiting)
        try:
            await _given_up_with(deadline, turn)
        except BaseException:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif not turn.cancelled():  # the thread was granted at the moment of the cancellation
                self._release(store)
            raise

    def _leave(self, future: Future[Any]) -> None:
        self._release(self._inside.pop(future)[0])

    def _release(self, store: str) -> None:
        self._taken[store] -= 1
        if not self._taken[store]:
            del self._taken[store]
        for waiting in list(self._waiting):
            name, turn = waiting
            if turn.done():
                self._waiting.remove(waiting)
            elif self._has_room(name):
                self._waiting.remove(waiting)
                self._taken[name] += 1
                turn.set_result(None)


def _read(deadline: Deadline, call: Callable[[], Any]) -> Any:
    deadline.check()
    with deadline:
        return call()


async def _given_up_with(deadline: Deadline, future: asyncio.Future[Any]) -> Any:
    """Await a future that is cancelled when the reader gives up."""
    deadline.on_give_up = future.cancel
    try:
        return await future
    except asyncio.CancelledError:
        if deadline.given_up:
            raise HttpError(503, "the client has disconnected") from None
        raise


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[Future[Any]], None], future: Future[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # the server has ended
        loop.call_soon_threadsafe(call, future)
