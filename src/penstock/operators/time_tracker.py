"""The times an operator keeps: stream time as it has seen it, and when it may emit again."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Any

from penstock.operators.context import OperatorContext
from penstock.record import NO_TIMESTAMP

DEFAULT_EMIT_INTERVAL_MS = 1000
EMIT_INTERVAL_WINDOWED_AGGREGATION = "__emit.interval.ms.kstreams.windowed.aggregation__"
EMIT_INTERVAL_OUTER_JOIN = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"


_KEY_LENGTH = 6


def time_key(name: str) -> str:
    """Return the short name that an operator's time is committed under.

    All times of a task share the 4,096 bytes that brokers keep beside an offset, so names take seven of them each. The 36 bits
    of the hash are enough for the 160 times that fit. No store's name begins with `@`.

    >>> time_key("KSTREAM-AGGREGATE-STATE-STORE-0000000003@stream-time")
    '@tEpAdT'
    """
    digest = blake2b(name.encode(), digest_size=6).digest()
    return "@" + urlsafe_b64encode(digest).decode("ascii")[:_KEY_LENGTH]


class EmitThrottle:
    """Lets an operator emit at most once in an interval of wall-clock time: looking for results that are due is costly."""

    __slots__ = ("_interval_ms", "_next_time_ms")

    def __init__(self, app_configs: Any, interval_config: str) -> None:
        self._interval_ms = int(app_configs.get(interval_config, DEFAULT_EMIT_INTERVAL_MS))
        self._next_time_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether the interval has passed."""
        return now_ms >= self._next_time_ms

    def may_emit(self, now_ms: int) -> bool:
        """Whether the interval has passed; the next one begins now if so."""
        if not self.is_due(now_ms):
            return False
        # From now, not from the time that was due: a clock that jumps must not let a burst through.
        self._next_time_ms = now_ms + self._interval_ms
        return True


class StreamTime:
    """The highest timestamp an operator has seen; it is committed with the task's offsets, so a task that moves keeps it."""

    __slots__ = ("_context", "_key", "now")

    def __init__(self, context: OperatorContext, name: str) -> None:
        self._context = context
        self._key = time_key(f"{name}@stream-time")
        carried = context.processor_metadata_for_key(self._key)
        self.now: int = NO_TIMESTAMP if carried is None else carried

    def observe(self, timestamp: int) -> int:
        """Advance to a timestamp if it is higher; returns stream time."""
        if timestamp > self.now:
            self.now = timestamp
            self._context.add_processor_metadata_key_value(self._key, timestamp)
        return self.now
