"""Windows: the pieces of time that records fall into, the keys that carry them, and the ways to cut time into them.

`Window` and its kinds are single pieces of time; `Windowed` is a key with one of them. `TimeWindows`,
`SlidingWindows`, `SessionWindows`, `UnlimitedWindows` and `JoinWindows` say how time is cut.
"""

from __future__ import annotations

import enum
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Generic, NoReturn, TypeVar

from penstock.errors import ConfigError
from penstock.java_names import JavaNames
from penstock.user_code import outer_stack_level

K = TypeVar("K", covariant=True)

Duration = timedelta | int

MAX_TIMESTAMP: Final = 2**63 - 1
"""Java's Long.MAX_VALUE: the end of a window that never ends."""

_MIN_LONG: Final = -(2**63)
_ONE_MS: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class _Required:
    """Stands for an argument that was not given, so that the message can say why it must be."""

    def __repr__(self) -> str:
        return "<required>"


_REQUIRED: Final[Any] = _Required()


def to_ms(duration: Duration, what: str) -> int:
    """A duration in whole milliseconds; `what` names the argument in the error.

    >>> to_ms(timedelta(seconds=2), "size"), to_ms(250, "size")
    (2000, 250)
    """
    if isinstance(duration, timedelta):
        return duration // _ONE_MS
    if isinstance(duration, int) and not isinstance(duration, bool):
        if not _MIN_LONG <= duration <= MAX_TIMESTAMP:
            raise ConfigError(f"{what} does not fit into 64 bits of milliseconds: {duration}")
        return int(duration)
    raise TypeError(f"{what} must be a timedelta or an integer number of milliseconds, got {duration!r}")


def _length_ms(length: Duration, what: str) -> int:
    """The length of a window in milliseconds. A plain number below 1,000 gets a warning: it is often meant in seconds."""
    length_ms = to_ms(length, what)
    if 0 < length_ms < 1000 and not isinstance(length, timedelta):
        warnings.warn(
            f"{what}={length} is {length} milliseconds; for seconds write timedelta(seconds={length}). "
            f"If milliseconds are meant, write timedelta(milliseconds={length})",
            stacklevel=outer_stack_level(),
        )
    return length_ms


def _grace_ms(grace: Any, of: str) -> int:
    if grace is _REQUIRED:
        raise TypeError(f"{of} needs grace=: how long after its end a window still takes late records; grace=0 for not at all")
    grace_ms = to_ms(grace, "grace")
    if grace_ms < 0:
        raise ConfigError(f"grace must not be negative, got {grace_ms} ms")
    return grace_ms


class Window:
    """A piece of time in milliseconds; a time window ends before `end`, a session or sliding window with it.

    Windows of one kind are equal when their bounds are. A plain `Window` equals one of any kind with its bounds, so that a
    result can be compared with it.

    >>> Window(0, 10) == TimeWindow(0, 10), TimeWindow(0, 10) == SessionWindow(0, 10)
    (True, False)
    """

    __slots__ = ("end", "start")

    start: int
    end: int

    def __init__(self, start: int, end: int) -> None:
        if start < 0:
            raise ConfigError(f"the start of a window cannot be negative, got {start}")
        if end < start:
            raise ConfigError(f"the end of a window cannot be before its start, got start={start} end={end}")
        _set_start(self, start)
        _set_end(self, end)

    @property
    def start_time(self) -> datetime:
        """The start as a moment in UTC."""
        return _EPOCH + timedelta(milliseconds=self.start)

    @property
    def end_time(self) -> datetime:
        """The end as a moment in UTC; `datetime.max` for a window that never ends."""
        try:
            return _EPOCH + timedelta(milliseconds=self.end)
        except OverflowError:
            return datetime.max.replace(tzinfo=timezone.utc)

    def overlap(self, other: Window) -> bool:
        """Whether the two share a moment; a plain window ends before its end."""
        return self.start < other.end and other.start < self.end

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Window):
            return NotImplemented
        # A plain Window stands for one of any kind; windows of two kinds are never equal.
        is_same_kind = type(self) is type(other) or Window in (type(self), type(other))
        return is_same_kind and self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.start, self.end)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(start={self.start}, end={self.end})"

    def _check_kind(self, other: Window) -> None:
        if type(other) is not type(self):
            raise ConfigError(f"cannot compare windows of different kinds: {self!r} and {other!r}")


# Slot descriptors write past the refusing __setattr__ at half the cost of object.__setattr__.
_set_start = Window.__dict__["start"].__set__
_set_end = Window.__dict__["end"].__set__


class TimeWindow(Window):
    """A window of `TimeWindows` (and of `SlidingWindows`, whose end belongs to it)."""

    __slots__ = ()

    def __init__(self, start: int, end: int) -> None:
        if end == start:
            raise ConfigError(f"a time window cannot be empty: start and end are both {start}")
        super().__init__(start, end)

    def overlap(self, other: Window) -> bool:
        """Whether the two share a moment; the end is exclusive."""
        self._check_kind(other)
        return self.start < other.end and other.start < self.end


class SessionWindow(Window):
    """A session: from its first record to its last, both included."""

    __slots__ = ()

    def overlap(self, other: Window) -> bool:
        """Whether the two share a moment; the ends are inclusive."""
        self._check_kind(other)
        return not (other.end < self.start or self.end < other.start)


class UnlimitedWindow(Window):
    """A window with a start and no end."""

    __slots__ = ()

    def __init__(self, start: int, end: int = MAX_TIMESTAMP) -> None:
        super().__init__(start, end)

    def overlap(self, other: Window) -> bool:
        """Two windows without an end always share a moment."""
        self._check_kind(other)
        return True


class Windowed(Generic[K]):
    """A key within a window.

    >>> str(Windowed("k", Window(0, 10)))
    '[k@0/10]'
    >>> Windowed("k", Window(0, 10)) == Windowed("k", TimeWindow(0, 10))
    True
    """

    __slots__ = ("key", "window")

    key: K
    window: Window

    def __init__(self, key: K, window: Window) -> None:
        _set_key(self, key)
        _set_window(self, window)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("Windowed is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("Windowed is immutable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Windowed):
            return NotImplemented
        return bool(self.key == other.key) and self.window == other.window

    def __hash__(self) -> int:
        return hash((self.key, self.window.start, self.window.end))

    def __reduce__(self) -> tuple[Any, ...]:
        return Windowed, (self.key, self.window)

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"

    def __repr__(self) -> str:
        return f"Windowed({self.key!r}, {self.window!r})"


_set_key = Windowed.__dict__["key"].__set__
_set_window = Windowed.__dict__["window"].__set__


class Windows(JavaNames, ABC):
    """How time is cut into windows that are known before a record comes: the base of time, unlimited and join windows.

    Windows of one's own (a day in a time zone) are a subclass. They are found again by their start: `size` is that of the
    longest of them, for how long they are kept, and what is read from a store or a topic ends a `size` after its start.

    >>> class Tens(Windows):
    ...     size = 10
    ...     grace_period_ms = 0
    ...     def windows_for(self, timestamp):
    ...         start = timestamp // 10 * 10
    ...         return {start: TimeWindow(start, start + 10)}
    >>> list(Tens().windows_for(12))
    [10]
    """

    grace_period_ms: int
    """How long after its end a window still takes late records."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of a window in milliseconds; of the longest, where they differ."""

    @abstractmethod
    def windows_for(self, timestamp: int) -> Mapping[int, Window]:
        """The windows a timestamp falls into, by their start, oldest first."""


@dataclass(frozen=True, init=False)
class TimeWindows(Windows):
    """Windows of a fixed size: one after the other, or overlapping where `advance` is smaller than `size`.

    `grace` is how long after a window's end late records still count; it has no default, so that the choice is explicit.

    >>> windows = TimeWindows(timedelta(seconds=10), grace=timedelta(0), advance=timedelta(seconds=5))
    >>> sorted(windows.windows_for(12_000))
    [5000, 10000]
    """

    size_ms: int
    advance_ms: int
    grace_period_ms: int

    def __init__(self, size: Duration, grace: Duration = _REQUIRED, advance: Duration | None = None) -> None:
        size_ms = _length_ms(size, "size")
        if size_ms <= 0:
            raise ConfigError(f"size must be larger than zero, got {size_ms} ms")
        advance_ms = size_ms if advance is None else to_ms(advance, "advance")
        if not 0 < advance_ms <= size_ms:
            raise ConfigError(f"advance must be more than zero and at most the size of {size_ms} ms, got {advance_ms} ms")
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "advance_ms", advance_ms)
        object.__setattr__(self, "grace_period_ms", _grace_ms(grace, "TimeWindows"))

    @property
    def size(self) -> int:
        """The length of a window in milliseconds."""
        return self.size_ms

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """The windows a timestamp falls into, by their start, oldest first."""
        size, advance = self.size_ms, self.advance_ms
        first = max(0, timestamp - size + advance) // advance * advance
        return {start: TimeWindow(start, start + size) for start in range(first, timestamp + 1, advance)}


@dataclass(frozen=True, init=False)
class UnlimitedWindows(Windows):
    """One window that starts at a time and never ends.

    >>> UnlimitedWindows(start=5).windows_for(4), list(UnlimitedWindows(start=5).windows_for(5))
    ({}, [5])
    """

    start_ms: int
    grace_period_ms: int

    def __init__(self, start: int | datetime = 0) -> None:
        start_ms = _timestamp_ms(start)
        if start_ms < 0:
            raise ConfigError(f"start cannot be negative, got {start_ms} ms")
        object.__setattr__(self, "start_ms", start_ms)
        object.__setattr__(self, "grace_period_ms", 0)

    @property
    def size(self) -> int:
        """Without an end: the largest size there is."""
        return MAX_TIMESTAMP

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """The one window, for timestamps from its start on."""
        return {self.start_ms: UnlimitedWindow(self.start_ms)} if timestamp >= self.start_ms else {}


def _timestamp_ms(start: int | datetime) -> int:
    if isinstance(start, datetime):
        return (start - (_EPOCH if start.tzinfo else _EPOCH.replace(tzinfo=None))) // _ONE_MS
    return to_ms(start, "start")


@dataclass(frozen=True, init=False)
class SlidingWindows(JavaNames):
    """For each record, the windows of `time_difference` that hold it and differ in what they hold; both ends included.

    >>> SlidingWindows(timedelta(seconds=1), grace=0)
    SlidingWindows(time_difference_ms=1000, grace_period_ms=0)
    """

    time_difference_ms: int
    grace_period_ms: int

    def __init__(self, time_difference: Duration, grace: Duration = _REQUIRED) -> None:
        time_difference_ms = _length_ms(time_difference, "time_difference")
        if time_difference_ms < 0:
            raise ConfigError(f"time_difference must not be negative, got {time_difference_ms} ms")
        object.__setattr__(self, "time_difference_ms", time_difference_ms)
        object.__setattr__(self, "grace_period_ms", _grace_ms(grace, "SlidingWindows"))


@dataclass(frozen=True, init=False)
class SessionWindows(JavaNames):
    """Windows of activity: records of a key closer together than `inactivity_gap` share a session.

    >>> SessionWindows(timedelta(minutes=5), grace=0).inactivity_gap_ms
    300000
    """

    inactivity_gap_ms: int
    grace_period_ms: int

    def __init__(self, inactivity_gap: Duration, grace: Duration = _REQUIRED) -> None:
        gap_ms = _length_ms(inactivity_gap, "inactivity_gap")
        if gap_ms < 0:
            raise ConfigError(f"inactivity_gap cannot be negative, got {gap_ms} ms")
        object.__setattr__(self, "inactivity_gap_ms", gap_ms)
        object.__setattr__(self, "grace_period_ms", _grace_ms(grace, "SessionWindows"))


_DEPRECATED_GRACE_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, init=False)
class JoinWindows(Windows):
    """How far apart two records may be to join: the other side from `before` earlier to `after` later.

    `time_difference` sets both; `before` or `after` given with it replaces that side. Either may be negative,
    their sum may not.

    >>> near = timedelta(seconds=5)
    >>> JoinWindows(near, grace=timedelta(0)) == JoinWindows(before=near, after=near, grace=timedelta(0))
    True
    """

    before_ms: int
    after_ms: int
    grace_period_ms: int
    emits_eagerly: bool = field(default=False, compare=False, repr=False)
    """Whether left and outer joins emit a record without a partner at once, and again when a partner comes: see `of`."""

    def __init__(
        self,
        time_difference: Duration | None = None,
        grace: Duration = _REQUIRED,
        before: Duration | None = None,
        after: Duration | None = None,
    ) -> None:
        if time_difference is None and (before is None or after is None):
            raise TypeError("JoinWindows needs time_difference, or before= and after=")
        both_ms = 0 if time_difference is None else _length_ms(time_difference, "time_difference")
        before_ms = both_ms if before is None else to_ms(before, "before")
        after_ms = both_ms if after is None else to_ms(after, "after")
        if both_ms < 0:
            raise ConfigError(f"time_difference must not be negative, got {both_ms} ms")
        if before_ms + after_ms < 0:
            raise ConfigError(f"before + after must not be negative, got before={before_ms} ms, after={after_ms} ms")
        object.__setattr__(self, "before_ms", before_ms)
        object.__setattr__(self, "after_ms", after_ms)
        object.__setattr__(self, "grace_period_ms", _grace_ms(grace, "JoinWindows"))

    @classmethod
    def of(cls, time_difference: Duration) -> JoinWindows:
        """Java's deprecated `JoinWindows.of`: a grace period of up to 24 hours, which `grace` replaces.

        Left and outer joins emit a record without a partner at once, also if one comes later. Prefer `JoinWindows(…, grace=…)`.

        >>> JoinWindows.of(10).grace(5)
        JoinWindows(before_ms=10, after_ms=10, grace_period_ms=5)
        """
        difference_ms = to_ms(time_difference, "time_difference")
        windows = cls(difference_ms, grace=max(_DEPRECATED_GRACE_MS - 2 * difference_ms, 0))
        object.__setattr__(windows, "emits_eagerly", True)
        return windows

    def grace(self, after_window_end: Duration) -> JoinWindows:
        """The same windows of `of` with another grace period."""
        if not self.emits_eagerly:
            raise ValueError("Cannot call grace() of windows that were made with a grace period: give grace= another value.")
        return self._changed(self.before_ms, self.after_ms, to_ms(after_window_end, "after_window_end"))

    def before(self, time_difference: Duration) -> JoinWindows:
        """The same windows with another bound for earlier records of the other side."""
        return self._changed(to_ms(time_difference, "time_difference"), self.after_ms, self.grace_period_ms)

    def after(self, time_difference: Duration) -> JoinWindows:
        """The same windows with another bound for later records of the other side."""
        return self._changed(self.before_ms, to_ms(time_difference, "time_difference"), self.grace_period_ms)

    def _changed(self, before_ms: int, after_ms: int, grace_ms: int) -> JoinWindows:
        windows = JoinWindows(before=before_ms, after=after_ms, grace=grace_ms)
        object.__setattr__(windows, "emits_eagerly", self.emits_eagerly)
        return windows

    @property
    def size(self) -> int:
        """How far apart the earliest and the latest match of a record may be."""
        return self.before_ms + self.after_ms

    def windows_for(self, timestamp: int) -> NoReturn:
        """Join windows depend on the other side's record; there is no list of them."""
        raise TypeError("JoinWindows has no fixed windows: windows_for() is not supported")


class StrategyType(enum.Enum):
    """When a windowed aggregation emits."""

    ON_WINDOW_UPDATE = 0
    ON_WINDOW_CLOSE = 1


@dataclass(frozen=True)
class EmitStrategy(JavaNames):
    """When a windowed aggregation emits: at each update of a window, or once when it closes.

    >>> EmitStrategy.on_window_close().type is StrategyType.ON_WINDOW_CLOSE
    True
    """

    type: StrategyType = StrategyType.ON_WINDOW_UPDATE

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Emit each change of a window's result (the default)."""
        return cls(StrategyType.ON_WINDOW_UPDATE)

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Emit a window's final result once, when its end and its grace period have passed."""
        return cls(StrategyType.ON_WINDOW_CLOSE)
