"""What the shared store of a left or outer stream-stream join holds: records that have not found a partner yet.

    key     int64 timestamp + 1 for the left side or 0 for the right one + key
    value   1 for the left side or 0 for the right one + value

Keys sort by time, so the records whose window closes first come first, and at equal times the right side's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.batches.serdes import ColumnSerializer, serialize_column
from penstock.errors import SerializationError
from penstock.serdes.contract import call_with_headers, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Deserializer, Serde, Serializer, WrappingNullable, as_deserializer, as_serializer

_TIME_AND_SIDE = struct.Struct(">q?")


class TimestampedKeyAndJoinSide(NamedTuple):
    """A key with its record's time and the side of the join it came from."""

    key: Any
    timestamp: int
    is_left_side: bool


def waiting_key(raw_key: bytes, timestamp: int, is_left_side: bool) -> bytes:
    """The bytes under which a record waits, from those of its key."""
    return _TIME_AND_SIDE.pack(timestamp, is_left_side) + raw_key


def raw_record_keys(store: Any, keys: Sequence[Any]) -> list[bytes]:
    """The bytes of records' keys, as the shared store has them."""
    size = _TIME_AND_SIDE.size
    return [raw[size:] for raw in store.raw_keys([TimestampedKeyAndJoinSide(key, 0, True) for key in keys])]


def raw_waiting_values(store: Any, values: Sequence[Any], is_left_side: bool) -> list[bytes | None]:
    """The bytes of values of one side, as the shared store has them."""
    if is_left_side:
        return store.raw_values([LeftOrRightValue(value, None) for value in values])  # type: ignore[no-any-return]
    return store.raw_values([LeftOrRightValue(None, value) for value in values])  # type: ignore[no-any-return]


class LeftOrRightValue(NamedTuple):
    """A value of the left side or of the right one; the other is None."""

    left_value: Any
    right_value: Any


class TimestampedKeyAndJoinSideSerializer(ColumnSerializer, WrappingNullable):
    """The bytes of a key in the shared store."""

    __slots__ = ("inner",)

    def __init__(self, inner: Serializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a serializer for the key the default key serde's is used."""
        self.inner = as_serializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)
        _pass_on(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the serializer of the key takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: TimestampedKeyAndJoinSide, headers: Any = None) -> bytes:
        """Time, side and key."""
        assert self.inner is not None, "set_if_unset was not called"
        key: bytes | None = call_with_headers(self.inner, topic, data.key, headers)
        if key is None:
            raise SerializationError(f"the key of a record that waits for its join partner cannot be null (topic {topic!r})")
        return _TIME_AND_SIDE.pack(data.timestamp, data.is_left_side) + key

    def serialize_all(self, topic: str, values: Sequence[TimestampedKeyAndJoinSide]) -> list[bytes]:
        """The same of many; a key without bytes fails."""
        keys: Sequence[Any] = serialize_column(self.inner, topic, [data.key for data in values])
        pack = _TIME_AND_SIDE.pack
        return [pack(time, is_left_side) + key for (_, time, is_left_side), key in zip(values, keys)]


class TimestampedKeyAndJoinSideDeserializer(WrappingNullable):
    """Reads a key of the shared store."""

    __slots__ = ("inner",)

    def __init__(self, inner: Deserializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a deserializer for the key the default key serde's is used."""
        self.inner = as_deserializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)
        _pass_on(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the deserializer of the key takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> TimestampedKeyAndJoinSide | None:
        """The key with its time and side; null bytes stay None."""
        if data is None:
            return None
        assert self.inner is not None, "set_if_unset was not called"
        if len(data) < _TIME_AND_SIDE.size:
            raise SerializationError(
                f"the key of a record that waits for its join partner has at least {_TIME_AND_SIDE.size} bytes, got {len(data)} "
                f"(topic {topic!r})"
            )
        timestamp, is_left_side = _TIME_AND_SIDE.unpack_from(data)
        key = call_with_headers(self.inner, topic, data[_TIME_AND_SIDE.size :], headers)
        return TimestampedKeyAndJoinSide(key, timestamp, is_left_side)


class TimestampedKeyAndJoinSideSerde(Serde[TimestampedKeyAndJoinSide]):
    """The serde of the shared store's keys around the serde of the streams' keys."""

    __slots__ = ()

    def __init__(self, key_serde: Any) -> None:
        super().__init__(
            TimestampedKeyAndJoinSideSerializer(as_serializer(key_serde)),
            TimestampedKeyAndJoinSideDeserializer(as_deserializer(key_serde)),
            f"TimestampedKeyAndJoinSideSerde({key_serde!r})",
        )


class LeftOrRightValueSerializer(ColumnSerializer, WrappingNullable):
    """The bytes of a value in the shared store."""

    __slots__ = ("left", "right")

    def __init__(self, left: Serializer | None, right: Serializer | None) -> None:
        self.left = left
        self.right = right

    def set_if_unset(self, getter: Any) -> None:
        """Without a serializer for a side's values the default value serde's is used."""
        self.left = as_serializer(getter.value_serde) if self.left is None else or_default(self.left, getter)
        self.right = as_serializer(getter.value_serde) if self.right is None else or_default(self.right, getter)
        _pass_on(self.left, getter)
        _pass_on(self.right, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the serializer of a side takes headers."""
        return wants_headers(self.left) or wants_headers(self.right)

    def __call__(self, topic: str, data: LeftOrRightValue | None, headers: Any = None) -> bytes | None:
        """Side and value."""
        if data is None:
            return None
        assert self.left is not None, "set_if_unset was not called"
        assert self.right is not None, "set_if_unset was not called"
        if data.left_value is not None:
            side, value = b"\x01", call_with_headers(self.left, topic, data.left_value, headers)
        else:
            side, value = b"\x00", call_with_headers(self.right, topic, data.right_value, headers)
        return None if value is None else side + value

    def serialize_all(self, topic: str, values: Sequence[LeftOrRightValue]) -> Sequence[bytes | None]:
        """The same of many, of one side and each with bytes of its own; others fail."""
        is_left = bool(values) and values[0].left_value is not None
        side, serializer = (b"\x01", self.left) if is_left else (b"\x00", self.right)
        of_side = [value for value, _ in values] if is_left else [value for _, value in values]
        if None in of_side:
            raise ValueError("values of both sides")
        raw: Sequence[Any] = serialize_column(serializer, topic, of_side)
        return [side + value for value in raw]


class LeftOrRightValueDeserializer(WrappingNullable):
    """Reads a value of the shared store."""

    __slots__ = ("left", "right")

    def __init__(self, left: Deserializer | None, right: Deserializer | None) -> None:
        self.left = left
        self.right = right

    def set_if_unset(self, getter: Any) -> None:
        """Without a deserializer for a side's values the default value serde's is used."""
        self.left = as_deserializer(getter.value_serde) if self.left is None else or_default(self.left, getter)
        self.right = as_deserializer(getter.value_serde) if self.right is None else or_default(self.right, getter)
        _pass_on(self.left, getter)
        _pass_on(self.right, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the deserializer of a side takes headers."""
        return wants_headers(self.left) or wants_headers(self.right)

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> LeftOrRightValue | None:
        """The value on its side; no bytes are None."""
        if not data:
            return None
        assert self.left is not None, "set_if_unset was not called"
        assert self.right is not None, "set_if_unset was not called"
        if data[0] == 1:
            return LeftOrRightValue(call_with_headers(self.left, topic, data[1:], headers), None)
        return LeftOrRightValue(None, call_with_headers(self.right, topic, data[1:], headers))


class LeftOrRightValueSerde(Serde[LeftOrRightValue]):
    """The serde of the shared store's values around the serdes of both streams' values."""

    __slots__ = ()

    def __init__(self, left_value_serde: Any, right_value_serde: Any) -> None:
        super().__init__(
            LeftOrRightValueSerializer(as_serializer(left_value_serde), as_serializer(right_value_serde)),
            LeftOrRightValueDeserializer(as_deserializer(left_value_serde), as_deserializer(right_value_serde)),
            f"LeftOrRightValueSerde({left_value_serde!r}, {right_value_serde!r})",
        )


def _pass_on(half: Any, getter: Any) -> None:
    if isinstance(half, WrappingNullable):
        half.set_if_unset(getter)
