"""How long a reader may take: until its time is over, or until nobody waits for its answer any more.

A thread cannot be ended from outside. So whoever reads on it says how patient it is (`with patience:`), and what waits or
iterates below looks at `current()` now and then: the thread is free again soon after the reader has given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.errors import StateStoreNotAvailableError

T = TypeVar("T")

STEP_SECONDS = 0.1
"""The longest wait between two looks at a reader's patience."""

_here = threading.local()


def _nothing() -> None:
    return None


class Patience:
    """One read's time, on whatever thread it runs.

    >>> patience = Patience(60)
    >>> with patience:
    ...     current() is patience, current().limit(5.0)
    (True, 5.0)
    >>> patience.give_up()
    >>> patience.is_over
    True
    """

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self.seconds = seconds
        self._before: list[Patience | None] = []
        self.given_up = False
        self.on_give_up: Callable[[], object] = _nothing
        """Called on the thread that gives up, where somebody wants to know at once."""

    def renew(self) -> None:
        """From now on as long as at the beginning; who has given up stays so."""
        self._deadline = time.monotonic() + self.seconds

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        if not self.given_up:
            self.given_up = True
            self.on_give_up()

    @property
    def is_over(self) -> bool:
        """Whether the reader should end."""
        return self.given_up or time.monotonic() > self._deadline

    def check(self) -> None:
        """Raise where the reader should end."""
        if self.given_up:
            raise StateStoreNotAvailableError("the reader has given up: nobody waits for the answer any more")
        if time.monotonic() > self._deadline:
            raise StateStoreNotAvailableError(f"the answer took longer than {self.seconds:g} s; ask for less, or later")

    def limit(self, seconds: float) -> float:
        """So long, or as long as there is time left."""
        return max(0.0, min(seconds, self._deadline - time.monotonic()))

    def step(self, seconds: float) -> float:
        """The same for a wait that is repeated, with a `check` in between."""
        return min(STEP_SECONDS, self.limit(seconds))

    def __enter__(self) -> Patience:
        self._before.append(getattr(_here, "patience", None))
        _here.patience = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.patience = self._before.pop()


class _Endless(Patience):
    """Of readers that nobody has told how long they may take, such as those in the application's own code."""

    is_over = property(lambda self: False)

    def __init__(self) -> None:
        super().__init__(float("inf"))

    def check(self) -> None:
        """It goes on."""

    def step(self, seconds: float) -> float:
        """Nothing to look at in between."""
        return max(0.0, seconds)


_ENDLESS = _Endless()


def current() -> Patience:
    """That of the reader on this thread."""
    return getattr(_here, "patience", None) or _ENDLESS


def patiently(entries: Iterable[T]) -> Iterator[T]:
    """The same entries, as long as the reader waits for them."""
    for entry in entries:
        current().check()  # of the thread that asks for this entry: the parts of a table may come from many
        yield entry
