"""Names of lanes for Spark: the same at each start, and never two of one name at the same time.

Spark keeps something for every name a lane ever had, so an application that starts again has its lanes under the names they had.
Only this driver's executors know them: they have to differ within this process, and nowhere else.
"""

from __future__ import annotations

import threading
from itertools import chain, count

_lock = threading.Lock()
_taken: set[str] = set()


def take_name(wanted: str) -> str:
    """This name, or where another lane of this process has it, one that is made of it.

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
    """A lane of this name is no more, and neither is its worker."""
    with _lock:
        _taken.discard(name)
