"""How an application is closed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import ConfigError
from penstock.windows import to_ms


@dataclass(frozen=True)
class CloseOptions:
    """How long `KafkaStreams.close` waits, and whether the instance leaves its group.

    `timeout` is a timedelta or milliseconds; without one `close` waits until all is closed. With `leave_group=True` the group
    gives the work to others at once, also that of a static member (`group.instance.id`). With `leave_group=False` it waits for
    the instance until `session.timeout.ms` has passed, in case it comes back. Where nothing is said a static member stays and
    any other leaves.

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
        """The timeout in seconds; None where there is none."""
        return None if self.timeout is None else to_ms(self.timeout, "timeout") / 1000

    @classmethod
    def of(cls, given: CloseOptions | timedelta | int | None) -> CloseOptions:
        """Options as they are, or those of a timeout alone."""
        return given if isinstance(given, CloseOptions) else cls(given)
