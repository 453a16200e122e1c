"""The queries a store can be asked, as Kafka Streams has them. All are frozen; the `with_…` methods give changed copies."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", covariant=True)

Time = int | datetime


class ResultOrder(enum.Enum):
    """In which order an iterator runs."""

    ANY = 0
    ASCENDING = 1
    DESCENDING = 2


def time_ms(time: Time, what: str) -> int:
    """A moment in milliseconds since the epoch."""
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000)
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"{what} is {time!r}: give milliseconds since the epoch or a datetime")
    return time


class Query(Generic[R]):
    """A question to a store; the type says what is answered."""


def _required(key: Any, query: object) -> None:
    if key is None:
        raise ValueError(f"the key of a {type(query).__name__} cannot be None")


@dataclass(frozen=True)
class KeyQuery(Query[V], Generic[K, V]):
    """The value of a key: `KeyQuery("alice")`."""

    key: K
    is_skip_cache: bool = False

    def __post_init__(self) -> None:
        _required(self.key, self)

    @classmethod
    def with_key(cls, key: K) -> KeyQuery[K, V]:
        """The query for a key."""
        return cls(key)

    def skip_cache(self) -> KeyQuery[K, V]:
        """Read past the record cache; queries always do here, since they read what is committed."""
        return replace(self, is_skip_cache=True)


@dataclass(frozen=True)
class TimestampedKeyQuery(Query[V], Generic[K, V]):
    """The value of a key with its timestamp, from a timestamped store."""

    key: K
    is_skip_cache: bool = False

    def __post_init__(self) -> None:
        _required(self.key, self)

    @classmethod
    def with_key(cls, key: K) -> TimestampedKeyQuery[K, V]:
        """The query for a key."""
        return cls(key)

    def skip_cache(self) -> TimestampedKeyQuery[K, V]:
        """Read past the record cache; queries always do here, since they read what is committed."""
        return replace(self, is_skip_cache=True)


class _Range(Query[V], Generic[K, V]):
    lower_bound: K | None
    upper_bound: K | None
    result_order: ResultOrder


@dataclass(frozen=True)
class RangeQuery(_Range[K, V]):
    """The entries between two keys, both included; None leaves an end open.

    >>> RangeQuery.with_range("a", "f").with_descending_keys()
    RangeQuery(lower_bound='a', upper_bound='f', result_order=<ResultOrder.DESCENDING: 2>)
    """

    lower_bound: K | None = None
    upper_bound: K | None = None
    result_order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_range(cls, lower: K | None, upper: K | None) -> RangeQuery[K, V]:
        """From one key to another."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: K) -> RangeQuery[K, V]:
        """From a key on."""
        return cls(lower, None)

    @classmethod
    def with_upper_bound(cls, upper: K) -> RangeQuery[K, V]:
        """Up to a key."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> RangeQuery[K, V]:
        """All entries."""
        return cls()

    def with_ascending_keys(self) -> RangeQuery[K, V]:
        """In the order of the keys' bytes."""
        return replace(self, result_order=ResultOrder.ASCENDING)

    def with_descending_keys(self) -> RangeQuery[K, V]:
        """From the highest key down."""
        return replace(self, result_order=ResultOrder.DESCENDING)


@dataclass(frozen=True)
class TimestampedRangeQuery(_Range[K, V]):
    """The same for a timestamped store, with the timestamps of the values."""

    lower_bound: K | None = None
    upper_bound: K | None = None
    result_order: ResultOrder = ResultOrder.ANY

    @classmethod
    def with_range(cls, lower: K | None, upper: K | None) -> TimestampedRangeQuery[K, V]:
        """From one key to another."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: K) -> TimestampedRangeQuery[K, V]:
        """From a key on."""
        return cls(lower, None)

    @classmethod
    def with_upper_bound(cls, upper: K) -> TimestampedRangeQuery[K, V]:
        """Up to a key."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> TimestampedRangeQuery[K, V]:
        """All entries."""
        return cls()

    def with_ascending_keys(self) -> TimestampedRangeQuery[K, V]:
        """In the order of the keys' bytes."""
        return replace(self, result_order=ResultOrder.ASCENDING)

    def with_descending_keys(self) -> TimestampedRangeQuery[K, V]:
        """From the highest key down."""
        return replace(self, result_order=ResultOrder.DESCENDING)


@dataclass(frozen=True)
class WindowKeyQuery(Query[V], Generic[K, V]):
    """The windows of one key that start in a range of time, both ends included."""

    key: K
    time_from: Time
    time_to: Time

    def __post_init__(self) -> None:
        _required(self.key, self)

    @classmethod
    def with_key_and_window_start_range(cls, key: K, time_from: Time, time_to: Time) -> WindowKeyQuery[K, V]:
        """The query for a key and a range of window starts."""
        return cls(key, time_from, time_to)


@dataclass(frozen=True)
class WindowRangeQuery(Query[V], Generic[K, V]):
    """Window stores: all windows that start in a range of time. Session stores: all sessions of a key."""

    key: K | None = None
    time_from: Time | None = None
    time_to: Time | None = None

    @classmethod
    def with_key(cls, key: K) -> WindowRangeQuery[K, V]:
        """All sessions of a key."""
        _required(key, cls())
        return cls(key)

    @classmethod
    def with_window_start_range(cls, time_from: Time, time_to: Time) -> WindowRangeQuery[K, V]:
        """The windows of all keys that start in a range of time."""
        return cls(None, time_from, time_to)


@dataclass(frozen=True)
class VersionedKeyQuery(Query[V], Generic[K, V]):
    """The latest version of a key's value, or the one that was valid at a time."""

    key: K
    as_of_timestamp: Time | None = None

    def __post_init__(self) -> None:
        _required(self.key, self)

    @classmethod
    def with_key(cls, key: K) -> VersionedKeyQuery[K, V]:
        """The query for the latest version."""
        return cls(key)

    def as_of(self, timestamp: Time) -> VersionedKeyQuery[K, V]:
        """The version that was valid at a time."""
        return replace(self, as_of_timestamp=timestamp)


@dataclass(frozen=True)
class MultiVersionedKeyQuery(Query[V], Generic[K, V]):
    """All versions of a key's value that were valid at some moment of a range of time."""

    key: K
    from_timestamp: Time | None = None
    to_timestamp: Time | None = None
    result_order: ResultOrder = ResultOrder.ANY

    def __post_init__(self) -> None:
        _required(self.key, self)

    @classmethod
    def with_key(cls, key: K) -> MultiVersionedKeyQuery[K, V]:
        """The query for all versions."""
        return cls(key)

    def from_time(self, time: Time | None) -> MultiVersionedKeyQuery[K, V]:
        """Only versions that were valid at this time or later."""
        return replace(self, from_timestamp=time)

    def to_time(self, time: Time | None) -> MultiVersionedKeyQuery[K, V]:
        """Only versions that were valid at this time or earlier."""
        return replace(self, to_timestamp=time)

    def with_ascending_timestamps(self) -> MultiVersionedKeyQuery[K, V]:
        """Oldest first."""
        return replace(self, result_order=ResultOrder.ASCENDING)

    def with_descending_timestamps(self) -> MultiVersionedKeyQuery[K, V]:
        """Newest first, which is also the default."""
        return replace(self, result_order=ResultOrder.DESCENDING)
