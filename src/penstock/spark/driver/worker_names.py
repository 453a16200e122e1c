"""Names of workers for Spark: the same at each start, and unique within this process.

Spark keeps a thread for every name that a worker ever had in a session. So an application that starts again reuses its names.
"""

from __future__ import annotations

import threading
from itertools import chain, count

_lock = threading.Lock()
_taken: set[str] = set()


def take_name(wanted: str) -> str:
    """Return this name, or the name with a number behind it if another worker of this process has it.

    >>> first, second = take_name("an-application-1"), take_name("an-application-1")
    >>> first, second
    ('an-application-1', 'an-application-1~2')
    >>> give_back(first)
    >>> take_name("an-application-1")
    'an-application-1'
    >>> for name in (first, second):
    ...     give_back(name)
    """
    with _lock:
        others = (f"{wanted}~{number}" for number in count(2))
        name = next(name for name in chain((wanted,), others) if name not in _taken)
        _taken.add(name)
        return name


def give_back(name: str) -> None:
    """Free the name of a worker that has ended."""
    with _lock:
        _taken.discard(name)
