"""What other threads ask the event loop to do, and what is done for it in the background."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")

# The longest that the event loop sleeps: so soon it notices what nobody tells it.
TICK = 0.1


class EventQueue:
    """Callbacks for the event loop's thread, in the order in which they came; any thread may add one.

    >>> queue, told = EventQueue(), []
    >>> queue.put(lambda: told.append("a thread has reported"))
    >>> queue.take()(); told, queue.take()
    (['a thread has reported'], None)
    """

    def __init__(self) -> None:
        self.lock = threading.Condition()
        """Held, and notified, by whoever changes what the event loop goes by."""
        self._callbacks: deque[Callable[[], None]] = deque()

    def put(self, callback: Callable[[], None]) -> None:
        """Have something done by the event loop's thread."""
        with self.lock:
            self._callbacks.append(callback)
            self.lock.notify_all()

    def put_later(self, callback: Callable[[], None]) -> None:
        """The same, in a moment."""
        timer = threading.Timer(TICK, self.put, (callback,))
        timer.daemon = True
        timer.start()

    def take(self) -> Callable[[], None] | None:
        """The next callback, if there is one."""
        return self._callbacks.popleft() if self._callbacks else None

    def wake(self) -> None:
        """Have the event loop look at everything, without a callback."""
        with self.lock:
            self.lock.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for the next callback, or until the event loop is woken; so many seconds at most, and a tick at most."""
        with self.lock:
            if not self._callbacks:
                self.lock.wait(min(TICK, seconds))


class Background:
    """Runs on other threads what would hold up the event loop: requests to brokers, commits, threads that close."""

    def __init__(self, executor: Executor, queue: EventQueue) -> None:
        self._executor, self.queue = executor, queue
        self._busy: set[str] = set()

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Begin something on another thread."""
        return self._executor.submit(work, *arguments)

    def then(self, future: Future[_T], take: Callable[..., None], *arguments: Any) -> None:
        """When something is done, have the event loop's thread call `take(*arguments, future)`."""
        future.add_done_callback(lambda done: self.queue.put(partial(take, *arguments, done)))

    def do(self, name: str, work: Callable[[], _T], take: Callable[[_T], None] = lambda _: None) -> None:
        """Do something, one of a name at a time, and have what came of it taken; an error of it is one of the instance."""
        if name in self._busy:
            return
        self._busy.add(name)

        def done(future: Future[_T]) -> None:
            self._busy.discard(name)
            take(future.result(0))

        self.then(self.submit(work), done)

    def close(self) -> None:
        """Begin nothing more."""
        self._executor.shutdown(wait=False)
