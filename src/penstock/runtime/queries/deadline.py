"""How long a reader may take: until its time is over, or until nobody waits for its answer any more.

A thread cannot be ended from outside. So a read sets its deadline on its thread (`with deadline:`), and code below that waits
or iterates checks `current()` now and then: the thread is free again soon after the reader has given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.errors import StateStoreNotAvailableError

T = TypeVar("T")

STEP_SECONDS = 0.1
"""The longest wait between two looks at a reader's deadline."""

_here = threading.local()


def _nothing() -> None:
    return None


class Deadline:
    """One read's time, on whatever thread it runs.

    >>> deadline = Deadline(60)
    >>> with deadline:
    ...     current() is deadline, current().limit(5.0)
    (True, 5.0)
    >>> deadline.give_up()
    >>> deadline.is_over
    True
    """

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self.seconds = seconds
        self._before: list[Deadline | None] = []
        self.given_up = False
        self.on_give_up: Callable[[], object] = _nothing
        """Called on the thread that gives up, where somebody wants to know at once."""

    def renew(self) -> None:
        """Start the time again from now; a reader that has given up stays so."""
        self._ends_at = time.monotonic() + self.seconds

    def give_up(self) -> None:
        """End the read, since nobody waits for the answer any more."""
        if not self.given_up:
            self.given_up = True
            self.on_give_up()

    @property
    def is_over(self) -> bool:
        """Whether the reader should end."""
        return self.given_up or time.monotonic() > self._ends_at

    def check(self) -> None:
        """Raise `StateStoreNotAvailableError` if the reader should end."""
        if self.given_up:
            raise StateStoreNotAvailableError("the reader has given up: nobody waits for the answer any more")
        if time.monotonic() > self._ends_at:
            raise StateStoreNotAvailableError(f"the answer took longer than {self.seconds:g} s; ask for less, or later")

    def limit(self, seconds: float) -> float:
        """Return `seconds`, or the time that is left if that is less."""
        return max(0.0, min(seconds, self._ends_at - time.monotonic()))

    def step(self, seconds: float) -> float:
        """Return how long one step of a repeated wait may take, with a `check` after each."""
        return min(STEP_SECONDS, self.limit(seconds))

    def __enter__(self) -> Deadline:
        self._before.append(getattr(_here, "deadline", None))
        _here.deadline = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.deadline = self._before.pop()


class _Endless(Deadline):
    """The deadline of reads in the application's own code, which has none."""

    is_over = property(lambda self: False)

    def __init__(self) -> None:
        super().__init__(float("inf"))

    def check(self) -> None:
        """Do nothing."""

    def step(self, seconds: float) -> float:
        """Return `seconds`: nothing has to be checked in between."""
        return max(0.0, seconds)


_ENDLESS = _Endless()


def current() -> Deadline:
    """Return the deadline of the reader on this thread."""
    return getattr(_here, "deadline", None) or _ENDLESS


def until_deadline(entries: Iterable[T]) -> Iterator[T]:
    """Yield the entries; raise when the deadline of the thread that asks for one has passed."""
    for entry in entries:
        current().check()  # of the thread that asks for this entry: the parts of a table may come from many
        yield entry
