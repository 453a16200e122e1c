"""A change of a table's row: the new value and the old one, and the bytes in which it travels through a repartition topic."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Generic, TypeVar

from penstock.errors import SerializationError
from penstock.serdes.contract import as_deserializer, as_serializer, call_with_headers, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Deserializer, Serde, Serializer, WrappingNullable

V = TypeVar("V")

_OLD_ONLY: Final = 0
_NEW_ONLY: Final = 1
_BOTH: Final = 2
# Flags 3 to 5 say the same with one more byte, whether the change is the latest; no version writes them yet.
_WITH_IS_LATEST: Final = 3


class Change(Generic[V]):
    """What a table's row becomes and what it was; `is_latest` is False for a change older than what the table holds.

    >>> Change("new", "old")
    Change(new_value='new', old_value='old')
    """

    __slots__ = ("is_latest", "new_value", "old_value")

    new_value: V | None
    old_value: V | None
    is_latest: bool

    def __init__(self, new_value: V | None, old_value: V | None, is_latest: bool = True) -> None:
        self.new_value = new_value
        self.old_value = old_value
        self.is_latest = is_latest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return bool(self.new_value == other.new_value and self.old_value == other.old_value and self.is_latest == other.is_latest)

    def __hash__(self) -> int:
        return hash((self.new_value, self.old_value, self.is_latest))

    def __str__(self) -> str:
        return f"({self.new_value}<-{self.old_value})"

    def __repr__(self) -> str:
        latest = "" if self.is_latest else ", is_latest=False"
        return f"Change(new_value={self.new_value!r}, old_value={self.old_value!r}{latest})"


def write_varint(value: int) -> bytes:
    """A signed 32-bit number in Kafka's zig-zag variable length.

    >>> write_varint(5).hex(), write_varint(-1).hex(), write_varint(300).hex()
    ('0a', '01', 'd804')
    """
    rest = (value << 1 ^ value >> 31) & 0xFFFFFFFF
    out = bytearray()
    while rest & ~0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes, position: int = 0) -> tuple[int, int]:
    """The number written by `write_varint` and the position after it; ValueError or IndexError where there is none."""
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            break
        shift += 7
        if shift > 28:
            raise ValueError("a variable-length number of more than 5 bytes")
    result &= 0xFFFFFFFF
    return result >> 1 ^ -(result & 1), position


class ChangedSerializer(WrappingNullable):
    """The bytes of a `Change`, as Java writes them to a table's repartition topic."""

    __slots__ = ("inner",)

    def __init__(self, inner: Serializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without an inner serializer the default value serde's is used."""
        self.inner = as_serializer(getter.value_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the serializer of the values takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, change: Change[Any], headers: Any = None) -> bytes:
        """New and old value and a flag that says which are there."""
        inner = self.inner
        assert inner is not None, "set_if_unset was not called"
        new = call_with_headers(inner, topic, change.new_value, headers)
        old = call_with_headers(inner, topic, change.old_value, headers)
        if new is not None:
            if old is not None:
                return b"".join((write_varint(len(new)), new, old, b"\x02"))
            return bytes(new) + b"\x01"
        if old is not None:
            return bytes(old) + b"\x00"
        raise SerializationError(f"both the old and the new value of a change are null, which topic {topic!r} cannot carry")


class ChangedDeserializer(WrappingNullable):
    """Reads a `Change` from a table's repartition topic."""

    __slots__ = ("inner",)

    def __init__(self, inner: Deserializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without an inner deserializer the default value serde's is used."""
        self.inner = as_deserializer(getter.value_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the deserializer of the values takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> Change[Any] | None:
        """The change; null bytes stay None."""
        if data is None:
            return None
        assert self.inner is not None, "set_if_unset was not called"
        inner: Any = self.inner
        if headers is not None and wants_headers(inner):
            inner = partial(_with_headers, inner, headers)
        if not data:
            raise SerializationError(f"an empty value on topic {topic!r} is not a change of a table's row")
        flag = data[-1]
        body = data[:-1]
        is_latest = True
        if flag >= _WITH_IS_LATEST:
            flag -= _WITH_IS_LATEST
            is_latest = self._read_is_latest(topic, body)
            body = body[:-1]
        if flag == _NEW_ONLY:
            return Change(inner(topic, body), inner(topic, None), is_latest)
        if flag == _OLD_ONLY:
            return Change(inner(topic, None), inner(topic, body), is_latest)
        if flag != _BOTH:
            raise SerializationError(f"unknown encoding flag {data[-1]} of a change on topic {topic!r}")
        new, old = self._split(topic, body)
        return Change(inner(topic, new), inner(topic, old), is_latest)

    @staticmethod
    def _read_is_latest(topic: str, body: bytes) -> bool:
        if not body or body[-1] > 1:
            raise SerializationError(f"unexpected is-latest flag of a change on topic {topic!r}")
        return body[-1] == 1

    @staticmethod
    def _split(topic: str, body: bytes) -> tuple[bytes, bytes]:
        try:
            size, start = read_varint(body)
        except (IndexError, ValueError) as exc:
            raise SerializationError(f"a change on topic {topic!r} does not start with the length of its new value") from exc
        if not 0 <= size <= len(body) - start:
            raise SerializationError(f"a change on topic {topic!r} is too short for its new value of {size} bytes")
        return body[start : start + size], body[start + size :]


def _with_headers(deserializer: Any, headers: Any, topic: str, data: bytes | None) -> Any:
    return deserializer(topic, data, headers)


class ChangedSerde(Serde[Change[Any]]):
    """The serde of `Change` around the serde of a table's values."""

    __slots__ = ()

    def __init__(self, inner: Any) -> None:
        super().__init__(
            ChangedSerializer(as_serializer(inner)),
            ChangedDeserializer(as_deserializer(inner)),
            f"ChangedSerde({inner!r})",
        )
