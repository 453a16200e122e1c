"""The serde of lists, in the format of Java's ListSerde."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from penstock.serdes.codecs import (
    UUID_LENGTH,
    Deserializer,
    Serializer,
    deserialize_double,
    deserialize_float,
    deserialize_integer,
    deserialize_long,
    deserialize_short,
    deserialize_uuid,
    refuse,
    serialize_double,
    serialize_float,
    serialize_integer,
    serialize_long,
    serialize_short,
    serialize_uuid,
    unreadable,
)

_pack_integer = struct.Struct(">i").pack

_FIXED_SIZES: Final[Mapping[Any, int]] = {
    serialize_short: 2,
    serialize_integer: 4,
    serialize_float: 4,
    serialize_long: 8,
    serialize_double: 8,
    serialize_uuid: UUID_LENGTH,
    deserialize_short: 2,
    deserialize_integer: 4,
    deserialize_float: 4,
    deserialize_long: 8,
    deserialize_double: 8,
    deserialize_uuid: UUID_LENGTH,
}
_CONSTANT_SIZE: Final = 0
_VARIABLE_SIZE: Final = 1
_NULL_ENTRY: Final = -1


def _fixed_size(half: Any) -> int | None:
    try:
        return _FIXED_SIZES.get(half)
    except TypeError:
        return None


class ListSerializer:
    """Java's list format: entries of a fixed size follow the positions of nulls; other entries have a length."""

    __slots__ = ("inner",)

    called_directly = True

    def __init__(self, inner: Serializer) -> None:
        self.inner = inner

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a list."""
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            refuse(topic, value, "ListSerializer", "a list")
        fixed = _fixed_size(self.inner) is not None
        out = bytearray((_CONSTANT_SIZE if fixed else _VARIABLE_SIZE,))
        if fixed:
            nulls = [index for index, entry in enumerate(value) if entry is None]
            out += struct.pack(f">i{len(nulls)}i", len(nulls), *nulls)
        out += _pack_integer(len(value))
        for entry in value:
            data = None if entry is None else self.inner(topic, entry)
            if not fixed:
                out += _pack_integer(_NULL_ENTRY if data is None else len(data))
            if data is not None:
                out += data
        return bytes(out)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListSerializer) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((ListSerializer, self.inner))


class ListDeserializer:
    """Reads Java's list format."""

    __slots__ = ("inner",)

    called_directly = True

    def __init__(self, inner: Deserializer) -> None:
        self.inner = inner

    def __call__(self, topic: str, data: bytes | None) -> list[Any] | None:
        """Return the list."""
        if data is None:
            return None
        try:
            return self._read(topic, bytes(data))
        except (struct.error, IndexError) as exc:
            unreadable(topic, "ListDeserializer", "end of the data was reached before the end of the list", exc)

    def _read(self, topic: str, data: bytes) -> list[Any]:
        strategy = data[0]
        position = 1
        nulls: frozenset[int] = frozenset()
        size_of_entry: int | None = None
        if strategy == _CONSTANT_SIZE:
            size_of_entry = _fixed_size(self.inner)
            if size_of_entry is None:
                unreadable(topic, "ListDeserializer", "the list has entries of a fixed size, the inner serde has not")
            nulls, position = self._null_positions(topic, data, position)
        elif strategy != _VARIABLE_SIZE:
            unreadable(topic, "ListDeserializer", f"invalid serialization strategy flag {strategy}")
        (count,) = struct.unpack_from(">i", data, position)
        position += 4
        result: list[Any] = []
        for index in range(count):
            if index in nulls:
                result.append(None)
                continue
            size = size_of_entry
            if size is None:
                (size,) = struct.unpack_from(">i", data, position)
                position += 4
                if size == _NULL_ENTRY:
                    result.append(None)
                    continue
            if size < 0 or position + size > len(data):
                raise IndexError(position)
            result.append(self.inner(topic, data[position : position + size]))
            position += size
        return result

    @staticmethod
    def _null_positions(topic: str, data: bytes, position: int) -> tuple[frozenset[int], int]:
        (count,) = struct.unpack_from(">i", data, position)
        if not 0 <= count <= len(data):
            unreadable(topic, "ListDeserializer", f"a list of {len(data)} bytes cannot have {count} nulls")
        nulls = frozenset(struct.unpack_from(f">{count}i", data, position + 4))
        return nulls, position + 4 + 4 * count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListDeserializer) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((ListDeserializer, self.inner))
