"""Where a source starts to read a topic for which the application has committed nothing yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.errors import TopologyError

_STRATEGIES = ("none", "earliest", "latest", "by_duration")


@dataclass(frozen=True)
class AutoOffsetReset:
    """The offset reset policy of one source; overrides `auto.offset.reset` for its topics.

    >>> str(AutoOffsetReset.earliest()), str(AutoOffsetReset.by_duration(timedelta(hours=1)))
    ('earliest', 'by_duration:PT3600S')
    """

    strategy: str
    duration_ms: int | None = None

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise TopologyError(f"Unrecognized offset reset {self.strategy!r}; use one of {', '.join(_STRATEGIES)}.")

    @staticmethod
    def none() -> AutoOffsetReset:
        """Fail where there is no committed offset."""
        return AutoOffsetReset("none")

    @staticmethod
    def earliest() -> AutoOffsetReset:
        """Start with the oldest record."""
        return AutoOffsetReset("earliest")

    @staticmethod
    def latest() -> AutoOffsetReset:
        """Start with what arrives from now on."""
        return AutoOffsetReset("latest")

    @staticmethod
    def by_duration(duration: timedelta | int) -> AutoOffsetReset:
        """Start with the records of the last `duration`."""
        milliseconds = duration if isinstance(duration, int) else duration // timedelta(milliseconds=1)
        if milliseconds < 0:
            raise TopologyError(f"The duration of an offset reset cannot be negative, but it is {milliseconds} ms.")
        return AutoOffsetReset("by_duration", milliseconds)

    def __str__(self) -> str:
        if self.duration_ms is None:
            return self.strategy
        return f"{self.strategy}:PT{self.duration_ms / 1000:.3f}".rstrip("0").rstrip(".") + "S"


def as_offset_reset(value: Any) -> AutoOffsetReset | None:
    """What a caller gave as an offset reset: a policy, its name, a duration to look back, or None.

    >>> as_offset_reset("LATEST")
    AutoOffsetReset(strategy='latest', duration_ms=None)
    """
    if value is None or isinstance(value, AutoOffsetReset):
        return value
    if isinstance(value, timedelta):
        return AutoOffsetReset.by_duration(value)
    if isinstance(value, str) and value.lower() in ("none", "earliest", "latest"):
        return AutoOffsetReset(value.lower())
    raise TopologyError(
        f"Unrecognized offset reset {value!r}; use 'earliest', 'latest', 'none', a timedelta or an AutoOffsetReset."
    )
