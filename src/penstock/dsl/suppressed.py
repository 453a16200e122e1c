"""When a table's updates are held back: `Suppressed`, and how much may be held back: `BufferConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import TopologyError
from penstock.graph.naming import validate_name
from penstock.java_names import JavaNames
from penstock.windows import MAX_TIMESTAMP, Duration, to_ms

UNBOUNDED = MAX_TIMESTAMP


@dataclass(frozen=True)
class BufferConfig(JavaNames):
    """The bounds of a suppression's buffer, and what happens when it is full.

    >>> BufferConfig.max_records(1000).with_max_bytes(1_000_000).emit_early_when_full().is_strict
    False
    >>> BufferConfig.unbounded().is_strict
    True
    """

    record_limit: int = UNBOUNDED
    byte_limit: int = UNBOUNDED
    is_strict: bool = True
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.record_limit < 0 or self.byte_limit < 0:
            raise TopologyError(
                f"the bounds of a buffer cannot be negative, got {self.record_limit} records and {self.byte_limit} bytes"
            )

    @classmethod
    def unbounded(cls) -> BufferConfig:
        """A buffer that takes whatever comes, as long as there is memory."""
        return cls()

    @classmethod
    def max_records(cls, record_limit: int) -> BufferConfig:
        """At most so many records; when full, the oldest are emitted early."""
        return cls(record_limit=record_limit, is_strict=False)

    @classmethod
    def max_bytes(cls, byte_limit: int) -> BufferConfig:
        """At most so many bytes of keys and values; when full, the oldest are emitted early."""
        return cls(byte_limit=byte_limit, is_strict=False)

    def with_max_records(self, record_limit: int) -> BufferConfig:
        """The same with another bound on records."""
        return replace(self, record_limit=record_limit)

    def with_max_bytes(self, byte_limit: int) -> BufferConfig:
        """The same with another bound on bytes."""
        return replace(self, byte_limit=byte_limit)

    def with_no_bound(self) -> BufferConfig:
        """The same without bounds."""
        return replace(self, record_limit=UNBOUNDED, byte_limit=UNBOUNDED, is_strict=True)

    def shut_down_when_full(self) -> BufferConfig:
        """Fail when the buffer is full: nothing is ever emitted too early."""
        return replace(self, is_strict=True)

    def emit_early_when_full(self) -> BufferConfig:
        """Emit the oldest records when the buffer is full."""
        return replace(self, is_strict=False)

    def with_logging_enabled(self, topic_config: Mapping[str, Any] | None = None) -> BufferConfig:
        """Keep the buffer in a changelog topic of this configuration (the default, without further settings)."""
        return replace(self, logging=True, topic_config={key: str(value) for key, value in (topic_config or {}).items()})

    def with_logging_disabled(self) -> BufferConfig:
        """Keep no changelog: what is held back is lost when the task moves."""
        return replace(self, logging=False, topic_config={})


@dataclass(frozen=True)
class Suppressed(JavaNames):
    """Which updates of a table are held back, and for how long.

    >>> from datetime import timedelta
    >>> Suppressed.until_time_limit(timedelta(seconds=1), BufferConfig.max_records(10)).time_to_wait_ms
    1000
    """

    buffer_config: BufferConfig
    time_to_wait_ms: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            validate_name(self.name)

    @property
    def is_until_window_closes(self) -> bool:
        """Whether only final results of windows pass; the wait is then the grace period of the windows above."""
        return self.time_to_wait_ms is None

    @classmethod
    def until_window_closes(cls, buffer_config: BufferConfig) -> Suppressed:
        """Emit one result per window, when it closes; the buffer must not emit early."""
        if not buffer_config.is_strict:
            raise TopologyError(
                "until_window_closes needs a buffer that never emits early: use BufferConfig.unbounded() "
                "or .shut_down_when_full()"
            )
        return cls(buffer_config)

    @classmethod
    def until_time_limit(cls, time_to_wait: Duration, buffer_config: BufferConfig) -> Suppressed:
        """Emit the latest update of a key once it has waited so long."""
        return cls(buffer_config, to_ms(time_to_wait, "time_to_wait"))

    def with_name(self, name: str) -> Suppressed:
        """The same with a name for the node; the store is then `<name>-store`."""
        return replace(self, name=name)
