"""Serdes over columns: the built-in ones in one call, all others value by value.

Whatever is not plain (a null, a value of another type, broken text) makes the fast call fail, and the column is done value by
value with the serde itself: the bytes, and the errors, are always those of the serde.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.batches.late_column import BytesColumn, LateColumn
from penstock.record import Headers
from penstock.serdes.codecs import (
    NotPlainJson,
    decode_json,
    deserialize_bytes,
    deserialize_double,
    deserialize_integer,
    deserialize_json,
    deserialize_long,
    deserialize_string,
    encode_json,
    serialize_bytes,
    serialize_double,
    serialize_integer,
    serialize_json,
    serialize_long,
    serialize_string,
)
from penstock.serdes.contract import OpenHeaders, UserDeserializer, UserSerializer, wants_headers
from penstock.serdes.typed_json import TypedJsonDeserializer, TypedJsonSerializer
from penstock.serdes.windowed import TimeWindowedSerializer


class ColumnSerializer:
    """A serializer that writes many values at a time."""

    __slots__ = ()

    @abstractmethod
    def serialize_all(self, topic: str, values: Sequence[Any]) -> Sequence[bytes | None]:
        """The bytes of each; raises where one is not plain, and they have to be written one by one."""


class ColumnDeserializer:
    """A deserializer that reads many values at a time."""

    __slots__ = ()

    @abstractmethod
    def deserialize_all(self, topic: str, data: Sequence[bytes | None]) -> Sequence[Any]:
        """The value of each; raises where one is not plain, and they have to be read one by one."""


_NONE = frozenset({type(None)})
_pack_start = struct.Struct(">q").pack

_Column = Callable[[Sequence[Any]], Sequence[Any]]


class WrittenColumn(LateColumn):
    """Values that a serializer has written: they are read when somebody looks at them, and not written again by the same one.

    >>> from penstock.serdes.codecs import deserialize_json
    >>> column = WrittenColumn([b"[1]", None], serialize_json, lambda raw: [deserialize_json("t", one) for one in raw])
    >>> serialize_column(serialize_json, "topic", column), list(column)
    ([b'[1]', None], [[1], None])
    """

    __slots__ = ("_raw", "_serializer")

    def __init__(self, raw: list[bytes | None], serializer: Any, read: Callable[[list[bytes | None]], list[Any]]) -> None:
        super().__init__(len(raw), lambda: read(raw))
        self._raw = raw
        self._serializer = serializer

    def written_by(self, serializer: Any) -> list[bytes | None] | None:
        """What the serializer would write, where that is known without; not once somebody has looked, who may change a value."""
        if self._entries is None and serializer is self._serializer and _fast(_SERIALIZERS, serializer) is not None:
            return self._raw
        return None


def serialize_column(
    serializer: Any, topic: str, values: Sequence[Any], headers: Sequence[OpenHeaders] | None = None
) -> Sequence[bytes | None]:
    """`serializer(topic, value)` of each value; with its headers where the serializer takes them.

    >>> serialize_column(serialize_long, "topic", [1, None])
    [b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01', None]
    """
    if isinstance(values, WrittenColumn) and (written := values.written_by(serializer)) is not None:
        return written
    try:
        if type(serializer) is TimeWindowedSerializer and not serializer.wants_headers:
            starts = [windowed.window.start for windowed in values]
            return [key + _pack_start(start) for key, start in zip(windowed_base_keys(serializer, topic, values), starts)]
        if isinstance(serializer, ColumnSerializer) and not wants_headers(serializer):
            return serializer.serialize_all(topic, values)
        fast = _fast(_SERIALIZERS, serializer)
        if fast is not None:
            return fast(values)
        if type(serializer) is TypedJsonSerializer and _NONE.isdisjoint(map(type, values)):
            return list(map(serializer.call, values))
    except (TypeError, ValueError, AttributeError, struct.error, OverflowError, RecursionError):
        pass  # not plain: the serializer says what it does with it
    return _each(serializer, topic, values, headers)


def serialize_to_arrow(
    serializer: Any, topic: str, values: Sequence[Any], headers: Sequence[OpenHeaders] | None = None
) -> Sequence[bytes | None]:
    """The same for who needs an Arrow array: text goes there in one step.

    >>> serialize_to_arrow(serialize_string, "topic", ["a", "\u00e9"]).array.to_pylist()
    [b'a', b'\xc3\xa9']
    """
    if (
        _fast(_SERIALIZERS, serializer) is _encode
        and not isinstance(values, WrittenColumn)
        and {str}.issuperset(map(type, values))
    ):
        try:
            array = pa.array(values, pa.string())
            if isinstance(array, pa.Array):  # more than 2 GB come in several
                return BytesColumn(array.view(pa.binary()))
        except UnicodeEncodeError:
            pass  # half of a surrogate pair: the serializer says what it does with it
    return serialize_column(serializer, topic, values, headers)


def deserialize_column(
    deserializer: Any, topic: str, data: Sequence[bytes | None], headers: Sequence[Headers] | None = None
) -> Sequence[Any]:
    """`deserializer(topic, bytes)` of each entry; with its headers where the deserializer takes them."""
    fast = _fast(_DESERIALIZERS, deserializer)
    try:
        if isinstance(deserializer, ColumnDeserializer) and not wants_headers(deserializer):
            return deserializer.deserialize_all(topic, data)
        if fast is not None:
            return fast(data)
        if type(deserializer) is TypedJsonDeserializer and _NONE.isdisjoint(map(type, data)):
            return list(map(deserializer.call, data))  # type: ignore[arg-type]  # there is no None
    except (TypeError, ValueError, IndexError, struct.error, RecursionError):
        pass  # not plain: the deserializer says what it does with it
    return _each(deserializer, topic, data, headers)


def _each(half: Any, topic: str, values: Sequence[Any], headers: Sequence[Any] | None) -> list[Any]:
    if headers is not None and wants_headers(half):
        return [half(topic, value, some) for value, some in zip(values, headers)]
    if isinstance(half, UserSerializer | UserDeserializer) and not half.wants_headers:
        # Past the adapter, which does the same for one value.
        call = half.call
        if half.handles_none:
            return [call(topic, value) for value in values]
        return [None if value is None else call(topic, value) for value in values]
    return [half(topic, value) for value in values]


def windowed_base_keys(serializer: Any, topic: str, windowed: Sequence[Any]) -> list[bytes]:
    """The bytes of the keys inside windowed ones."""
    assert serializer.inner is not None, "set_if_unset was not called"
    keys = serialize_column(serializer.inner, topic, [one.key for one in windowed])
    if not {bytes}.issuperset(map(type, keys)):
        raise TypeError("not only bytes")
    return list(keys)  # type: ignore[arg-type]


def _fast(table: dict[Any, _Column], function: Any) -> _Column | None:
    try:
        return table.get(function)
    except TypeError:  # a user's serde object that does not hash
        return None


def _encode(values: Sequence[Any]) -> Sequence[Any]:
    return list(map(str.encode, values))


def _decode(data: Sequence[Any]) -> Sequence[Any]:
    return list(map(bytes.decode, data))


def _same_bytes(values: Sequence[Any]) -> Sequence[Any]:
    if not {bytes, type(None)}.issuperset(map(type, values)):
        raise TypeError("not only bytes")
    return values


def _write_json(values: Sequence[Any]) -> Sequence[Any]:
    if None in values:
        raise TypeError("no value is no JSON")
    return list(map(encode_json, values))


def _read_json(data: Sequence[Any]) -> Sequence[Any]:
    try:
        return list(map(decode_json, data))
    except NotPlainJson as exc:
        raise ValueError("not all can be read at once") from exc


def _packing(letter: str, size: int) -> _Column:
    def pack(values: Sequence[Any]) -> Sequence[Any]:
        packed = struct.pack(f">{len(values)}{letter}", *values)
        return [packed[at : at + size] for at in range(0, len(packed), size)]

    return pack


def _unpacking(letter: str, size: int) -> _Column:
    def unpack(data: Sequence[Any]) -> Sequence[Any]:
        if not {size}.issuperset(map(len, data)):
            raise ValueError("not all of the same size")
        return list(struct.unpack(f">{len(data)}{letter}", b"".join(data)))

    return unpack


_SERIALIZERS: dict[Any, _Column] = {
    serialize_string: _encode,
    serialize_bytes: _same_bytes,
    serialize_long: _packing("q", 8),
    serialize_integer: _packing("i", 4),
    serialize_double: _packing("d", 8),
    serialize_json: _write_json,
}
_DESERIALIZERS: dict[Any, _Column] = {
    deserialize_string: _decode,
    deserialize_bytes: _same_bytes,
    deserialize_long: _unpacking("q", 8),
    deserialize_integer: _unpacking("i", 4),
    deserialize_double: _unpacking("d", 8),
    deserialize_json: _read_json,
}
