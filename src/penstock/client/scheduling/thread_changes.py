"""Stream threads that are added and removed while the application runs: asked for by anybody, done by the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ThreadChange:
    """A thread to be added, under its name, or removed, without one; the event loop calls `on_done` when that is done."""

    index: int
    name: str | None = None
    on_done: Callable[[], None] = lambda: None


class ThreadChanges:
    """What is asked for and not done yet.

    >>> changes = ThreadChanges()
    >>> changes.put(ThreadChange(1, "app-StreamThread-2"))
    >>> changes.take().name, changes.take()
    ('app-StreamThread-2', None)
    """

    def __init__(self) -> None:
        self._waiting: deque[ThreadChange] = deque()

    def put(self, change: ThreadChange) -> None:
        """Ask for a change."""
        self._waiting.append(change)

    def take(self) -> ThreadChange | None:
        """The next change that was asked for."""
        return self._waiting.popleft() if self._waiting else None

    def __bool__(self) -> bool:
        return bool(self._waiting)
