"""A time limit for awaited code without a separate task. `asyncio.wait_for` makes a task, which took a fifth of the time of a
small request; `asyncio.timeout` needs Python 3.11.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class TimeLimit:
    """`async with TimeLimit(5):` raises TimeoutError in its block after 5 seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> TimeLimit:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired:
            left = self._task.uncancel() if hasattr(self._task, "uncancel") else 0
            if kind is asyncio.CancelledError and not left:  # otherwise another caller cancelled the task too
                raise TimeoutError(f"it took longer than {self._seconds:g} s") from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()
