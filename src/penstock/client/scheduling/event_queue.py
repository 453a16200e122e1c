"""The event loop's callbacks from other threads, and its background work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")

# The longest sleep of the event loop, after which it checks conditions without a callback.
TICK = 0.1


class EventQueue:
    """Callbacks for the event loop's thread, in order. Any thread may add one.

    >>> queue, told = EventQueue(), []
    >>> queue.put(lambda: told.append("a thread has reported"))
    >>> queue.take()(); told, queue.take()
    (['a thread has reported'], None)
    """

    def __init__(self) -> None:
        self.lock = threading.Condition()
        """Held and notified for each change of the event loop's input."""
        self._callbacks: deque[Callable[[], None]] = deque()

    def put(self, callback: Callable[[], None]) -> None:
        """Run a callback on the event loop's thread."""
        with self.lock:
            self._callbacks.append(callback)
            self.lock.notify_all()

    def put_later(self, callback: Callable[[], None]) -> None:
        """Run a callback on the event loop's thread after a tick."""
        timer = threading.Timer(TICK, self.put, (callback,))
        timer.daemon = True
        timer.start()

    def take(self) -> Callable[[], None] | None:
        """Return the next callback, or None."""
        return self._callbacks.popleft() if self._callbacks else None

    def wake(self) -> None:
        """Wake the event loop without a callback."""
        with self.lock:
            self.lock.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for a callback or a wake-up, for at most `seconds` and at most a tick."""
        with self.lock:
            if not self._callbacks:
                self.lock.wait(min(TICK, seconds))


class Background:
    """Runs blocking work on other threads: requests to brokers, commits, closing of threads."""

    def __init__(self, executor: Executor, queue: EventQueue) -> None:
        self._executor, self.queue = executor, queue
        self._busy: set[str] = set()

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Run work on another thread."""
        return self._executor.submit(work, *arguments)

    def then(self, future: Future[_T], take: Callable[..., None], *arguments: Any) -> None:
        """Call `take(*arguments, future)` on the event loop's thread when the future is done."""
        future.add_done_callback(lambda done: self.queue.put(partial(take, *arguments, done)))

    def do(self, name: str, work: Callable[[], _T], take: Callable[[_T], None] = lambda _: None) -> None:
        """Run work, one of each name at a time, and pass its result to `take`. Its errors are those of the instance."""
        if name in self._busy:
            return
        self._busy.add(name)

        def done(future: Future[_T]) -> None:
            self._busy.discard(name)
            take(future.result(0))

        self.then(self.submit(work), done)

    def close(self) -> None:
        """Accept no more work."""
        self._executor.shutdown(wait=False)
