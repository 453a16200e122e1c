"""What others have to tell the conductor, and what is done for it on other threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")

# The longest the conductor sleeps: so soon is noticed what nobody tells.
TICK = 0.1


class Notes:
    """What is to be taken up by the conductor's thread, in the order in which it came; anybody may leave a note.

    >>> notes, told = Notes(), []
    >>> notes.put(lambda: told.append("a lane has answered"))
    >>> notes.take()(); told, notes.take()
    (['a lane has answered'], None)
    """

    def __init__(self) -> None:
        self.lock = threading.Condition()
        """Whoever changes what the conductor goes by holds it, and notifies it."""
        self._notes: deque[Callable[[], None]] = deque()

    def put(self, note: Callable[[], None]) -> None:
        """Have something done by the conductor's thread."""
        with self.lock:
            self._notes.append(note)
            self.lock.notify_all()

    def put_later(self, note: Callable[[], None]) -> None:
        """The same, in a moment."""
        timer = threading.Timer(TICK, self.put, (note,))
        timer.daemon = True
        timer.start()

    def take(self) -> Callable[[], None] | None:
        """The next note, if there is one."""
        return self._notes.popleft() if self._notes else None

    def wake(self) -> None:
        """Have the conductor look at everybody, without a note."""
        with self.lock:
            self.lock.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for the next note, or until somebody wakes the conductor; so many seconds at most, and a tick at most."""
        with self.lock:
            if not self._notes:
                self.lock.wait(min(TICK, seconds))


class Beside:
    """Does on other threads what would hold up the conductor's: readings, questions to brokers, commits, lanes that close."""

    def __init__(self, executor: Executor, notes: Notes) -> None:
        self._executor, self.notes = executor, notes
        self._busy: set[str] = set()

    def submit(self, work: Callable[..., _T], *arguments: Any) -> Future[_T]:
        """Begin something on another thread."""
        return self._executor.submit(work, *arguments)

    def then(self, future: Future[_T], take: Callable[..., None], *arguments: Any) -> None:
        """When something is done, have the conductor's thread call `take(*arguments, future)`."""
        future.add_done_callback(lambda done: self.notes.put(partial(take, *arguments, done)))

    def do(self, name: str, work: Callable[[], _T], take: Callable[[_T], None] = lambda _: None) -> None:
        """Do something, one of a name at a time, and have what came of it taken; an error of it is one of the instance."""
        if name in self._busy:
            return
        self._busy.add(name)

        def done(future: Future[_T]) -> None:
            self._busy.discard(name)
            take(future.result(0))

        self.then(self.submit(work), done)

    def is_busy(self, name: str) -> bool:
        """Whether something of this name is not taken yet."""
        return name in self._busy

    def close(self) -> None:
        """Begin nothing more."""
        self._executor.shutdown(wait=False)
