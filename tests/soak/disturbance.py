"""What the applications of the soak call for every record: it takes time, and does what it is ordered to.

Orders are files in a folder that all workers see (`tests/faults/dying.py`): of steps of a turn, and of the user's function
itself, which then raises, sleeps, or takes a lot of memory for a while.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.faults.dying import obey, order

USER = "user"
ACTIONS = ("raise", "sleep", "eat")
# Slow enough for a fault to meet a turn at work, whatever moment it comes.
_PACE, _SLEEP_SECONDS, _EATEN = 0.0005, 8.0, 300_000_000


class OrderedError(Exception):
    """What a user's function raises when told to."""


class Disturbance:
    """A function for `peek`. Where it is unpickled, which is in workers, their threads look for orders from then on."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._driver, self._order = folder, os.getpid(), str(folder / USER)

    def __call__(self, _key: Any, _value: Any) -> None:
        time.sleep(_PACE)
        if os.path.exists(self._order):  # as cheap as a look can be
            self._do()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if os.getpid() != self._driver:
            obey(self._folder)

    def _do(self) -> None:
        done = self._folder / f"{USER}.done"
        try:
            os.rename(self._order, done)
        except FileNotFoundError:
            return  # another was first
        action = done.read_text()
        if action == "raise":
            raise OrderedError("the soak wants it so")
        if action == "sleep":
            time.sleep(_SLEEP_SECONDS)
        elif action == "eat":
            eaten = b"x" * _EATEN
            time.sleep(1.0)
            del eaten


def disturb_user(folder: Path, action: str) -> Path:
    """Let the next record that comes to a function meet an action; what exists once it has."""
    return order(folder, USER, action)
