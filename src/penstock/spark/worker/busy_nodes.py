"""Which nodes of a topology a thread is busy with: looked at twenty times a second while turns run, on a thread of its own.

To take the time of every node for every record would cost more than many nodes do. The stack of the thread that runs the turn
tells where it is at any moment (`spark/worker/current_work.py`): what is found there often is where the time goes. A look
takes some 50 µs.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from penstock.spark.worker.current_work import CurrentWork

EVERY_MS = 50
_AFTER_SECONDS = 1.0  # so long after a turn the next one is waited for awake
_IDLE_SECONDS = 60.0


class BusyNodes:
    """Looks at what a thread does, until closed; while no turn runs it sleeps."""

    def __init__(self, work: CurrentWork, name: str) -> None:
        self._work = work
        self._found: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"{name}-busy", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it looks, or waits for a turn to look at."""
        return self._thread.is_alive()

    def take(self) -> Counter[str]:
        """Milliseconds by node since this was last asked; by the step of a turn, in brackets, where no node was at work."""
        with self._lock:
            found, self._found = self._found, Counter()
        return found

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        self._work.begun.set()

    def _run(self) -> None:
        chance = random.Random()  # noqa: S311 - when to look, not a secret
        while not self._closed:
            if not self._work.begun.wait(_IDLE_SECONDS):
                continue
            self._work.begun.clear()
            until = time.monotonic() + _AFTER_SECONDS
            while time.monotonic() < until and not self._closed:
                # At any moment alike: turns that begin with the looks would show their beginnings only.
                time.sleep(EVERY_MS / 1000 * (0.5 + chance.random()))
                if self._work.step:
                    self._look()
                    until = time.monotonic() + _AFTER_SECONDS

    def _look(self) -> None:
        doing = self._work.now()
        if doing.step:
            with self._lock:
                self._found[doing.node or f"({doing.step})"] += EVERY_MS
