"""Options of `KafkaStreams.close`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import ConfigError
from penstock.windows import to_ms


@dataclass(frozen=True)
class CloseOptions:
    """How long `KafkaStreams.close` waits, and whether the instance leaves its group.

    `timeout` is a timedelta or milliseconds. Without it `close` waits until everything is closed. With `leave_group=True` the
    group reassigns the tasks at once, also those of a static member (`group.instance.id`). With `leave_group=False` the group
    waits until `session.timeout.ms` has passed, in case the instance returns. By default a static member stays and any other
    leaves.

    >>> CloseOptions(timedelta(seconds=30), leave_group=True).seconds
    30.0
    """

    timeout: timedelta | int | None = None
    leave_group: bool | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and to_ms(self.timeout, "timeout") < 0:
            raise ConfigError(f"timeout of close must not be negative, got {self.timeout!r}")
        if self.leave_group is not None and not isinstance(self.leave_group, bool):
            raise TypeError(f"leave_group must be True, False or None, got {self.leave_group!r}")

    @property
    def seconds(self) -> float | None:
        """The timeout in seconds, None without one."""
        return None if self.timeout is None else to_ms(self.timeout, "timeout") / 1000

    @classmethod
    def of(cls, given: CloseOptions | timedelta | int | None) -> CloseOptions:
        """Convert a timeout to options."""
        return given if isinstance(given, CloseOptions) else cls(given)
