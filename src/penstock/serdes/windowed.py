"""Serdes of windowed keys, with Java's bytes: key and window start, or key, session end and session start."""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from penstock.errors import ConfigError, SerializationError
from penstock.hashing import default_partition
from penstock.serdes.contract import as_deserializer, as_serializer, call_with_headers, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Deserializer, Serde, Serializer, WrappingNullable, resolve_serde
from penstock.windows import MAX_TIMESTAMP, Duration, SessionWindow, TimeWindow, Windowed, to_ms

K = TypeVar("K")

_TIMESTAMP: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">qq")
_pack_start = _TIMESTAMP.pack
_SEQUENCE_SIZE: Final = 4


def time_window_for_size(start: int, size: int) -> TimeWindow:
    """Return the window with this start and size. Its end is at most the largest timestamp.

    >>> time_window_for_size(5, 10)
    TimeWindow(start=5, end=15)
    """
    return TimeWindow(start, min(start + size, MAX_TIMESTAMP))


class _WindowedSerializer(WrappingNullable):
    __slots__ = ("inner",)

    inner: Serializer | None

    def __init__(self, inner: Serializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Use the default key serde's serializer if no inner one is given."""
        self.inner = as_serializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """True if the inner serializer takes headers."""
        return wants_headers(self.inner)

    def serialize_base_key(self, topic: str, windowed: Windowed[Any], headers: Any = None) -> bytes:
        """Return the bytes of the inner key, by which the record is partitioned."""
        assert self.inner is not None, "set_if_unset was not called"
        try:
            data: bytes | None = call_with_headers(self.inner, topic, windowed.key, headers)
        except AttributeError as exc:
            if isinstance(windowed, Windowed):
                raise
            raise SerializationError(
                f"{type(self).__name__} cannot serialize a value of type {type(windowed).__name__} for topic {topic!r}: "
                "expected a Windowed key"
            ) from exc
        if data is None:
            raise SerializationError(f"the key within {windowed} is null, which topic {topic!r} cannot carry")
        return data

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((type(self), self.inner))


class TimeWindowedSerializer(_WindowedSerializer):
    """Serializes key and window start."""

    __slots__ = ()

    def __call__(self, topic: str, windowed: Windowed[Any] | None, headers: Any = None) -> bytes | None:
        """Return the key's bytes and the start as 8 bytes."""
        if windowed is None:
            return None
        return self.serialize_base_key(topic, windowed, headers) + _pack_start(windowed.window.start)


class SessionWindowedSerializer(_WindowedSerializer):
    """Serializes key, session end and session start."""

    __slots__ = ()

    def __call__(self, topic: str, windowed: Windowed[Any] | None, headers: Any = None) -> bytes | None:
        """Return the key's bytes, and the end and the start as 8 bytes each."""
        if windowed is None:
            return None
        window = windowed.window
        return self.serialize_base_key(topic, windowed, headers) + _SESSION.pack(window.end, window.start)


def is_windowed_serializer(serializer: Any) -> bool:
    """Return True if a serializer writes keys with their window.

    >>> is_windowed_serializer(TimeWindowedSerializer(None)), is_windowed_serializer(None)
    (True, False)
    """
    return isinstance(serializer, _WindowedSerializer)


class WindowedStreamPartitioner:
    """Partitions a windowed key by its inner key, so that a window is in the partition of its records."""

    __slots__ = ("serializer",)

    def __init__(self, serializer: Any) -> None:
        self.serializer = serializer

    def __call__(self, topic: str, windowed: Windowed[Any], value: Any, num_partitions: int) -> int:
        """Return the partition of the inner key."""
        return default_partition(self.serializer.serialize_base_key(topic, windowed), num_partitions)


class _WindowedDeserializer(WrappingNullable):
    __slots__ = ("inner",)

    inner: Deserializer | None

    def __init__(self, inner: Deserializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Use the default key serde's deserializer if no inner one is given."""
        self.inner = as_deserializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """True if the inner deserializer takes headers."""
        return wants_headers(self.inner)

    def _key(self, topic: str, data: bytes, suffix: int, headers: Any) -> Any:
        assert self.inner is not None, "set_if_unset was not called"
        if len(data) < suffix:
            raise SerializationError(
                f"a windowed key has at least {suffix} bytes, got {len(data)} on topic {topic!r}; is it a windowed key?"
            )
        return call_with_headers(self.inner, topic, data[: len(data) - suffix], headers)


class TimeWindowedDeserializer(_WindowedDeserializer):
    """Deserializes key and window start. The window size is not in the bytes and must be given."""

    __slots__ = ("is_changelog_topic", "window_size")

    def __init__(self, inner: Deserializer | None, window_size: int, is_changelog_topic: bool = False) -> None:
        super().__init__(inner)
        self.window_size = window_size
        self.is_changelog_topic = is_changelog_topic

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> Windowed[Any] | None:
        """Return the windowed key. A changelog's keys also end in a sequence number."""
        if not data:
            return None
        suffix = _TIMESTAMP.size + (_SEQUENCE_SIZE if self.is_changelog_topic else 0)
        key = self._key(topic, data, suffix, headers)
        (start,) = _TIMESTAMP.unpack_from(data, len(data) - suffix)
        try:
            return Windowed(key, time_window_for_size(start, self.window_size))
        except ConfigError as exc:
            raise SerializationError(f"a windowed key on topic {topic!r} has no valid window: {exc}") from exc

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TimeWindowedDeserializer)
            and self.inner == other.inner
            and self.window_size == other.window_size
            and self.is_changelog_topic == other.is_changelog_topic
        )

    def __hash__(self) -> int:
        return hash((TimeWindowedDeserializer, self.inner, self.window_size, self.is_changelog_topic))


class SessionWindowedDeserializer(_WindowedDeserializer):
    """Deserializes key, session end and session start."""

    __slots__ = ()

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> Windowed[Any] | None:
        """The windowed key."""
        if not data:
            return None
        key = self._key(topic, data, _SESSION.size, headers)
        end, start = _SESSION.unpack_from(data, len(data) - _SESSION.size)
        try:
            return Windowed(key, SessionWindow(start, end))
        except ConfigError as exc:
            raise SerializationError(f"a windowed key on topic {topic!r} has no valid session: {exc}") from exc

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionWindowedDeserializer) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((SessionWindowedDeserializer, self.inner))


class TimeWindowedSerde(Serde[Windowed[Any]]):
    """The serde of keys of time, sliding and unlimited windows."""

    __slots__ = ()

    def __init__(self, inner: Serde[Any], window_size: int) -> None:
        super().__init__(
            TimeWindowedSerializer(as_serializer(inner)),
            TimeWindowedDeserializer(as_deserializer(inner), window_size),
            f"WindowedSerdes.time_windowed({inner!r}, {window_size})",
        )

    def for_changelog(self, is_changelog_topic: bool = True) -> Serde[Windowed[Any]]:
        """Return this serde for the keys of a window store's changelog topic, which end in a sequence number."""
        read = self.deserializer
        assert isinstance(read, TimeWindowedDeserializer)
        return Serde(self.serializer, TimeWindowedDeserializer(read.inner, read.window_size, is_changelog_topic))


# Java has a separate internal class; here one class serves both.
FullTimeWindowedSerde = TimeWindowedSerde


class SessionWindowedSerde(Serde[Windowed[Any]]):
    """The serde of keys of session windows."""

    __slots__ = ()

    def __init__(self, inner: Serde[Any]) -> None:
        super().__init__(
            SessionWindowedSerializer(as_serializer(inner)),
            SessionWindowedDeserializer(as_deserializer(inner)),
            f"WindowedSerdes.session_windowed({inner!r})",
        )


class WindowedSerdes:
    """Serdes of windowed keys, to read and write the results of windowed aggregations.

    >>> from penstock.serdes.serde import Serdes
    >>> from penstock.windows import Window
    >>> serde = WindowedSerdes.time_windowed(Serdes.string(), 10)
    >>> serde.serializer("topic", Windowed("key", Window(50, 60))).hex()
    '6b65790000000000000032'
    """

    @staticmethod
    def time_windowed(inner: Any, window_size: Duration = MAX_TIMESTAMP) -> TimeWindowedSerde:
        """Return the serde of keys with windows of one size. The bytes contain only the start, so reading needs the size."""
        size = to_ms(window_size, "window_size")
        if size < 0:
            raise ConfigError(f"window_size must not be negative, got {size} ms")
        return TimeWindowedSerde(resolve_serde(inner, "the inner serde of time_windowed"), size)

    @staticmethod
    def session_windowed(inner: Any) -> SessionWindowedSerde:
        """Return the serde of session keys. The bytes contain start and end."""
        return SessionWindowedSerde(resolve_serde(inner, "the inner serde of session_windowed"))
