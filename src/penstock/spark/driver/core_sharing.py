"""How threads get cores among the jobs of a session: the pool of Spark's fair scheduler they are in, and who waits for a core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from penstock.clock import monotonic

_log = logging.getLogger(__name__)

T = TypeVar("T")

# So long a thread has waited when it is told, and so long until it is told again.
_TOLD_AFTER: Final = 5.0
_TOLD_AGAIN: Final = 60.0

# A key of the application's config, and the local property by which Spark knows the pool of a job.
POOL: Final = "spark.scheduler.pool"


class CoreWaits:
    """Which threads wait for a core of Spark, and since when; looked at by who waits for their answers."""

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
        """How long each thread has waited that waits now, by its name."""
        now = self._now()
        return {thread: now - since for thread, since in dict(self._since).items()}

    def look(self, threads: Iterable[str]) -> None:
        """See who of the threads that have not answered yet waits."""
        pending = set(threads)
        waiting = pending & self._ask() if pending else set()
        now = self._now()
        self._since = {thread: self._since.get(thread, now) for thread in sorted(waiting)}
        self._told = {thread: at for thread, at in self._told.items() if thread in waiting}
        for thread, since in self._since.items():
            if now - since >= _TOLD_AFTER and now - self._told.get(thread, -_TOLD_AGAIN) >= _TOLD_AGAIN:
                self._told[thread] = now
                _log.warning(
                    "stream-thread [%s] has waited %.0f s for a core of Spark: %s", thread, now - since, self._why(thread)
                )

    def _why(self, thread: str) -> str:
        if refusal := self._refusal(thread):
            return f"its executor {refusal}, and there is no other. It goes on when the cluster gives the application one"
        return (
            "all are taken. Give the application a session or executors of its own, or a pool with a minShare "
            f"({POOL}, with spark.scheduler.mode=FAIR)"
        )

    def anybody_waits(self) -> bool:
        """Whether a task of any job of the session waits for a core."""
        return self._told_by(self._anybody, otherwise=False)

    def _ask(self) -> set[str]:
        return self._told_by(self._waiting, otherwise=set())

    def _told_by(self, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except Exception as exc:  # noqa: BLE001 - a session that has ended meanwhile; who waits for its answers will see
            _log.debug("who waits for a core cannot be told: %s", exc)
            return otherwise
