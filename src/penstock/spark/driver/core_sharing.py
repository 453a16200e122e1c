"""Sharing of cores among the jobs of a session: the fair scheduler's pool, and threads that wait for a core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from penstock.clock import monotonic

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Wait before the first warning, and before the next.
_WARN_AFTER: Final = 5.0
_WARN_AGAIN: Final = 60.0

# The config key, which is also the local property with the pool of a job.
POOL: Final = "spark.scheduler.pool"


class CoreWaits:
    """The threads that wait for a core of Spark, and since when. `look` updates it."""

    def __init__(
        self,
        waiting: Callable[[], set[str]],
        now: Callable[[], float] = monotonic,
        anybody: Callable[[], bool] = lambda: False,
        refusal: Callable[[str], str] = lambda thread: "",
    ) -> None:
        self._waiting, self._anybody, self._refusal = waiting, anybody, refusal
        self._now = now
        self._since: dict[str, float] = {}
        self._told: dict[str, float] = {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """The waiting time of each waiting thread, by name."""
        now = self._now()
        return {thread: now - since for thread, since in dict(self._since).items()}

    def look(self, threads: Iterable[str]) -> None:
        """Update the waiting times of these threads, which have not answered yet."""
        pending = set(threads)
        waiting = pending & self._ask() if pending else set()
        now = self._now()
        self._since = {thread: self._since.get(thread, now) for thread in sorted(waiting)}
        self._told = {thread: at for thread, at in self._told.items() if thread in waiting}
        for thread, since in self._since.items():
            if now - since >= _WARN_AFTER and now - self._told.get(thread, -_WARN_AGAIN) >= _WARN_AGAIN:
                self._told[thread] = now
                _log.warning(
                    "stream-thread [%s] has waited %.0f s for a core of Spark: %s", thread, now - since, self._why(thread)
                )

    def _why(self, thread: str) -> str:
        if refusal := self._refusal(thread):
            return f"its executor {refusal}, and there is no other. It continues when the cluster provides one"
        return (
            "all are taken. Give the application a session or executors of its own, or a pool with a minShare "
            f"({POOL}, with spark.scheduler.mode=FAIR)"
        )

    def anybody_waits(self) -> bool:
        """Return True if a task of any job of the session waits for a core."""
        return self._guarded_request(self._anybody, otherwise=False)

    def _ask(self) -> set[str]:
        return self._guarded_request(self._waiting, otherwise=set())

    def _guarded_request(self, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except Exception as exc:  # noqa: BLE001 - a session that has ended; the callers notice that by themselves
            _log.debug("Asking Spark for waiting tasks failed: %s", exc)
            return otherwise
