"""Plain data as bytes: what the processes of one application tell each other. Reading it never runs code, as unpickling would.

A value is a tag and what belongs to it; numbers are big-endian:

    N T F          None, True, False
    i <8>          a whole number of 64 bits; n <4> <bytes> a longer one
    d <8>          a number with a fraction
    s b <4> <…>    text as UTF-8, bytes
    l t <4> …      a list, a tuple: how many, then each
    m <4> …        a mapping: how many, then key and value of each
    o <1> …        an object of a known class, by its number: its fields as a tuple
    e <1> …        a member of a known enum, by its name
    p <4> …        many pairs of bytes, as readers of stores get them: all lengths, then all bytes

A `Codec` knows the classes that may occur, in the order of their numbers: dataclasses, named tuples, enums. Nothing else is ever
made of bytes. What is read is bounded: a length or a count never exceeds the bytes that are left, nesting ends at
`MAX_DEPTH`, so that hostile bytes cost no more than their own size; they end in a `SerializationError`, never in another one.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from array import array
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import SerializationError

MAX_DEPTH = 32

_LONG = struct.Struct(">cq")
_DOUBLE = struct.Struct(">cd")
_SIZED = struct.Struct(">cI")
_NUMBERED = struct.Struct(">cB")
_PAIRS_FROM = 8  # fewer pairs are not worth a form of their own
_NONE_LENGTH = 0xFFFFFFFF
_CONSTANTS = {b"N": None, b"T": True, b"F": False}


class Codec:
    """Writes and reads plain values, and objects of these classes.

    >>> from penstock.ids import TaskId
    >>> codec = Codec(TaskId)
    >>> codec.decode(codec.encode({TaskId(0, 3): [1, None, b"raw", "text", 0.5]}))
    {TaskId(subtopology=0, partition=3): [1, None, b'raw', 'text', 0.5]}
    """

    def __init__(self, *classes: type[Any]) -> None:
        self._classes = classes
        self._numbers = {known: number for number, known in enumerate(classes)}
        self._fields = [_fields_of(known) for known in classes]

    def encode(self, value: Any) -> bytes:
        """The value as bytes; raises where there is something in it that is not plain."""
        parts: list[bytes] = []
        self._write(value, parts.append)
        return b"".join(parts)

    def decode(self, data: bytes) -> Any:
        """What `encode` wrote; raises `SerializationError` for everything else."""
        reader = _Reader(data, self)
        value = reader.value(0)
        if reader.at != len(data):
            raise SerializationError(f"{len(data) - reader.at} bytes follow the end of a message")
        return value

    def _write(self, value: Any, add: Callable[[bytes], None]) -> None:
        kind = type(value)
        if value is None:
            add(b"N")
        elif kind is bool:
            add(b"T" if value else b"F")
        elif kind is int:
            add(_whole(value))
        elif kind is str:
            data = value.encode("utf-8", "surrogatepass")
            add(_SIZED.pack(b"s", len(data)))
            add(data)
        elif kind is bytes:
            add(_SIZED.pack(b"b", len(value)))
            add(value)
        elif kind is float:
            add(_DOUBLE.pack(b"d", value))
        elif kind in self._numbers:
            self._write_object(value, self._numbers[kind], add)
        elif kind is list and len(value) >= _PAIRS_FROM and _are_pairs(value):
            _write_pairs(value, add)
        elif kind is list or kind is tuple:
            add(_SIZED.pack(b"l" if kind is list else b"t", len(value)))
            for item in value:
                self._write(item, add)
        elif isinstance(value, Mapping):
            add(_SIZED.pack(b"m", len(value)))
            for key, item in value.items():
                self._write(key, add)
                self._write(item, add)
        else:
            self._write_alike(value, add)

    def _write_object(self, value: Any, number: int, add: Callable[[bytes], None]) -> None:
        if isinstance(value, enum.Enum):
            add(_NUMBERED.pack(b"e", number))
            self._write(value.name, add)
            return
        add(_NUMBERED.pack(b"o", number))
        names = self._fields[number]
        add(_SIZED.pack(b"t", len(names)))
        for name in names:
            self._write(getattr(value, name), add)

    def _write_alike(self, value: Any, add: Callable[[bytes], None]) -> None:
        """Numbers and bytes that are not Python's own."""
        if isinstance(value, (bytearray, memoryview)):
            self._write(bytes(value), add)
        elif isinstance(value, str):
            self._write(str(value), add)
        elif hasattr(value, "__index__"):
            self._write(value.__index__(), add)
        elif hasattr(value, "__float__"):
            self._write(float(value), add)
        else:
            raise SerializationError(f"a {type(value).__qualname__} is not plain data: it cannot be told to another process")

    def make(self, number: int, fields: Any) -> Any:
        """An object of a known class from what was read."""
        if number >= len(self._classes):
            raise SerializationError(f"a message names class {number}, of which nothing is known")
        known = self._classes[number]
        try:
            if issubclass(known, enum.Enum):
                return known[fields]
            if type(fields) is not tuple or len(fields) != len(self._fields[number]):
                raise SerializationError(f"a message has other fields for {known.__qualname__}")
            return known(*fields)
        except (TypeError, ValueError, KeyError) as exc:
            raise SerializationError(f"a message has no {known.__qualname__} where it says so: {exc!r}") from exc


class _Reader:
    """Walks through the bytes of one message."""

    def __init__(self, data: bytes, codec: Codec) -> None:
        self._data = bytes(data)
        self._codec = codec
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise SerializationError(f"a message is nested more than {MAX_DEPTH} deep")
        tag = self._take(1)
        if tag == b"b":
            return self._take(self._count())
        if tag == b"i":
            return self._unpacked(">q", 8)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"s":
            return self._text()
        if tag == b"t":
            return tuple([self.value(depth + 1) for _ in range(self._count())])
        if tag == b"l":
            return [self.value(depth + 1) for _ in range(self._count())]
        if tag == b"p":
            return self._pairs()
        if tag == b"m":
            return self._mapping(depth)
        if tag == b"o" or tag == b"e":
            return self._codec.make(self._take(1)[0], self.value(depth + 1))
        if tag == b"d":
            return self._unpacked(">d", 8)
        if tag == b"n":
            return int.from_bytes(self._take(self._count()), "big", signed=True)
        raise SerializationError(f"a message has the unknown tag {tag!r}")

    def _take(self, count: int) -> bytes:
        start, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise SerializationError("a message ends too early")
        return self._data[start : self.at]

    def _unpacked(self, form: str, size: int) -> Any:
        return struct.unpack(form, self._take(size))[0]

    def _count(self) -> int:
        """A length, or how many values follow: each takes a byte at least."""
        count = int.from_bytes(self._take(4), "big")
        if count > len(self._data) - self.at:
            raise SerializationError("a message says it is longer than it is")
        return count

    def _text(self) -> str:
        try:
            return self._take(self._count()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as exc:
            raise SerializationError(f"a message has text that is no UTF-8: {exc}") from exc

    def _mapping(self, depth: int) -> dict[Any, Any]:
        try:
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(self._count())}
        except TypeError as exc:
            raise SerializationError(f"a message has a key that cannot be one: {exc}") from exc

    def _pairs(self) -> list[tuple[bytes | None, bytes | None]]:
        count = self._count()
        lengths = _lengths(self._take(8 * count))
        found: list[bytes | None] = []
        data, at = self._data, self.at
        for length in lengths:
            if length == _NONE_LENGTH:
                found.append(None)
            else:
                found.append(data[at : at + length])
                at += length
        self.at = at
        if at > len(data):
            raise SerializationError("a message ends too early")
        return list(zip(found[::2], found[1::2]))


def _fields_of(known: type[Any]) -> tuple[str, ...]:
    if issubclass(known, enum.Enum):
        return ()
    if dataclasses.is_dataclass(known):
        return tuple(field.name for field in dataclasses.fields(known))
    return tuple(known._fields)  # a named tuple


def _whole(value: int) -> bytes:
    if -(1 << 63) <= value < 1 << 63:
        return _LONG.pack(b"i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    return _SIZED.pack(b"n", len(data)) + data


def _are_pairs(values: list[Any]) -> bool:
    plain = (bytes, type(None))
    return all(type(v) is tuple and len(v) == 2 and type(v[0]) in plain and type(v[1]) in plain for v in values)


def _write_pairs(pairs: list[tuple[bytes | None, bytes | None]], add: Callable[[bytes], None]) -> None:
    flat = [item for pair in pairs for item in pair]
    add(_SIZED.pack(b"p", len(pairs)))
    lengths = array("I", [_NONE_LENGTH if item is None else len(item) for item in flat])
    add(_in_order(lengths).tobytes())
    add(b"".join([item for item in flat if item]))


def _lengths(data: bytes) -> array[int]:
    lengths = array("I")
    lengths.frombytes(data)
    return _in_order(lengths)


def _in_order(lengths: array[int]) -> array[int]:
    if _IS_LITTLE:
        lengths.byteswap()
    return lengths


_IS_LITTLE = array("I", [1]).tobytes()[0] == 1
