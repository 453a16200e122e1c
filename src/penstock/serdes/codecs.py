"""The functions of the built-in serdes: one serializer and one deserializer for each type, with Java's bytes.

They are module functions, because these compare and pickle by name and cost one call per value.
"""

from __future__ import annotations

import codecs
import json
import re
import struct
import uuid
from collections.abc import Callable
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]  # None where Python has no C
from typing import Any, Final, NoReturn

import msgspec

from penstock.errors import SerializationError

Serializer = Callable[[str, Any], "bytes | None"]
Deserializer = Callable[[str, "bytes | None"], Any]

UUID_LENGTH: Final = 36


def refuse(topic: str, value: Any, serializer: str, expected: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the error for a value that a serializer cannot write."""
    raise SerializationError(
        f"{serializer} cannot serialize a value of type {type(value).__name__} for topic {topic!r}: expected {expected}. "
        "Set a serde that fits the data."
    ) from cause


def unreadable(topic: str, deserializer: str, problem: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the error for bytes that a deserializer cannot read."""
    raise SerializationError(f"{problem} (topic {topic!r}); check that {deserializer} fits what was written") from cause


def serialize_string(topic: str, value: str | None) -> bytes | None:
    """Encode as UTF-8."""
    if value is None:
        return None
    if not isinstance(value, str):
        refuse(topic, value, "StringSerializer", "str")
    try:
        return value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="replace")


def deserialize_string(topic: str, data: bytes | None) -> str | None:
    """Decode UTF-8. Invalid bytes become U+FFFD, as in Java."""
    if data is None:
        return None
    return str(data, "utf-8", "replace")


class StringEncoding:
    """Text in an encoding with Java's name, with the bytes of Java's StringSerializer, also for UTF-16 and UTF-32.

    Java writes UTF-16 in big-endian order with a byte order mark, and UTF-32 in big-endian order without one. Characters
    outside of the encoding become `?`, and invalid bytes become U+FFFD.

    >>> StringEncoding("UTF-16").serialize("topic", "a"), StringEncoding("ISO-8859-1").serialize("topic", "é€")
    (b'\\xfe\\xff\\x00a', b'\\xe9?')
    """

    def __init__(self, encoding: str) -> None:
        self.name = codecs.lookup(encoding).name

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        """Encode a text."""
        if value is None:
            return None
        if not isinstance(value, str):
            refuse(topic, value, "StringSerializer", "str")
        if self.name == "utf-16":
            return codecs.BOM_UTF16_BE + value.encode("utf-16-be", "replace")
        return value.encode("utf-32-be" if self.name == "utf-32" else self.name, "replace")

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """Decode bytes. Without a byte order mark they are big-endian."""
        if data is None:
            return None
        name = self.name
        if name in _BYTE_ORDER_MARKS and not data.startswith(_BYTE_ORDER_MARKS[name]):
            name = f"{name}-be"
        return str(data, name, "replace")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringEncoding) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


_BYTE_ORDER_MARKS = {
    "utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE),
    "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE),
}


class _Fixed:
    """A big-endian number of a fixed size. The functions are module functions, so they compare and pickle by name."""

    def __init__(self, java_name: str, layout: str, expected: str) -> None:
        self.java_name = java_name
        self.expected = expected
        self.size = struct.calcsize(layout)
        self.pack = struct.Struct(layout).pack
        self.unpack = struct.Struct(layout).unpack

    def refuse(self, topic: str, value: Any, cause: BaseException) -> NoReturn:
        refuse(topic, value, f"{self.java_name}Serializer", self.expected, cause)

    def unreadable(self, topic: str, data: Any, cause: BaseException) -> NoReturn:
        name = f"{self.java_name}Deserializer"
        found = f"{len(data)} bytes" if isinstance(data, bytes | bytearray | memoryview) else type(data).__name__
        unreadable(topic, name, f"size of data received by {name} is not {self.size}: got {found}", cause)


_LONG: Final = _Fixed("Long", ">q", "an int of 64 bits")
_INTEGER: Final = _Fixed("Integer", ">i", "an int of 32 bits")
_SHORT: Final = _Fixed("Short", ">h", "an int of 16 bits")
_DOUBLE: Final = _Fixed("Double", ">d", "a float")
_FLOAT: Final = _Fixed("Float", ">f", "a float of 32 bits")
_pack_long, _unpack_long = _LONG.pack, _LONG.unpack
_pack_integer, _unpack_integer = _INTEGER.pack, _INTEGER.unpack
_pack_short, _unpack_short = _SHORT.pack, _SHORT.unpack
_pack_double, _unpack_double = _DOUBLE.pack, _DOUBLE.unpack
_pack_float, _unpack_float = _FLOAT.pack, _FLOAT.unpack
_NUMBER_ERRORS: Final = (struct.error, TypeError, OverflowError)


def serialize_long(topic: str, value: int | None) -> bytes | None:
    """Encode as 8 bytes, big-endian."""
    if value is None:
        return None
    try:
        return _pack_long(value)
    except _NUMBER_ERRORS as exc:
        _LONG.refuse(topic, value, exc)


def deserialize_long(topic: str, data: bytes | None) -> int | None:
    """Decode 8 bytes, big-endian."""
    if data is None:
        return None
    try:
        return _unpack_long(data)[0]  # type: ignore[no-any-return]
    except _NUMBER_ERRORS as exc:
        _LONG.unreadable(topic, data, exc)


def serialize_integer(topic: str, value: int | None) -> bytes | None:
    """Encode as 4 bytes, big-endian."""
    if value is None:
        return None
    try:
        return _pack_integer(value)
    except _NUMBER_ERRORS as exc:
        _INTEGER.refuse(topic, value, exc)


def deserialize_integer(topic: str, data: bytes | None) -> int | None:
    """Decode 4 bytes, big-endian."""
    if data is None:
        return None
    try:
        return _unpack_integer(data)[0]  # type: ignore[no-any-return]
    except _NUMBER_ERRORS as exc:
        _INTEGER.unreadable(topic, data, exc)


def serialize_short(topic: str, value: int | None) -> bytes | None:
    """Encode as 2 bytes, big-endian."""
    if value is None:
        return None
    try:
        return _pack_short(value)
    except _NUMBER_ERRORS as exc:
        _SHORT.refuse(topic, value, exc)


def deserialize_short(topic: str, data: bytes | None) -> int | None:
    """Decode 2 bytes, big-endian."""
    if data is None:
        return None
    try:
        return _unpack_short(data)[0]  # type: ignore[no-any-return]
    except _NUMBER_ERRORS as exc:
        _SHORT.unreadable(topic, data, exc)


def serialize_double(topic: str, value: float | None) -> bytes | None:
    """Encode as 8 bytes, IEEE 754, big-endian."""
    if value is None:
        return None
    try:
        return _pack_double(value)
    except _NUMBER_ERRORS as exc:
        _DOUBLE.refuse(topic, value, exc)


def deserialize_double(topic: str, data: bytes | None) -> float | None:
    """Decode 8 bytes, IEEE 754, big-endian."""
    if data is None:
        return None
    try:
        return _unpack_double(data)[0]  # type: ignore[no-any-return]
    except _NUMBER_ERRORS as exc:
        _DOUBLE.unreadable(topic, data, exc)


def serialize_float(topic: str, value: float | None) -> bytes | None:
    """Encode as 4 bytes, IEEE 754, big-endian."""
    if value is None:
        return None
    try:
        return _pack_float(value)
    except _NUMBER_ERRORS as exc:
        _FLOAT.refuse(topic, value, exc)


def deserialize_float(topic: str, data: bytes | None) -> float | None:
    """Decode 4 bytes, IEEE 754, big-endian."""
    if data is None:
        return None
    try:
        return _unpack_float(data)[0]  # type: ignore[no-any-return]
    except _NUMBER_ERRORS as exc:
        _FLOAT.unreadable(topic, data, exc)


def serialize_boolean(topic: str, value: bool | None) -> bytes | None:
    """Encode as one byte, 1 or 0."""
    if value is None:
        return None
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    refuse(topic, value, "BooleanSerializer", "bool")


def deserialize_boolean(topic: str, data: bytes | None) -> bool | None:
    """Decode one byte, 1 or 0."""
    if data is None:
        return None
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    if len(data) != 1:
        problem = f"size of data received by BooleanDeserializer is not 1: got {len(data)} bytes"
    else:
        problem = f"unexpected byte received by BooleanDeserializer: {data[0]}"
    unreadable(topic, "BooleanDeserializer", problem)


def serialize_bytes(topic: str, value: bytes | bytearray | memoryview | None) -> bytes | None:
    """Return the bytes unchanged."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    refuse(topic, value, "BytesSerializer", "bytes")


def deserialize_bytes(topic: str, data: bytes | None) -> bytes | None:
    """Return the bytes unchanged."""
    return data


def deserialize_byte_buffer(topic: str, data: bytes | None) -> memoryview | None:
    """Return a view of the bytes."""
    return None if data is None else memoryview(data)


def serialize_uuid(topic: str, value: uuid.UUID | None) -> bytes | None:
    """Encode as the UUID's text of 36 characters."""
    if value is None:
        return None
    if not isinstance(value, uuid.UUID):
        refuse(topic, value, "UUIDSerializer", "uuid.UUID")
    return str(value).encode()


# Java accepts any five groups of hex digits and keeps the low bits of each.
_UUID_GROUPS: Final = re.compile(r"([0-9a-fA-F]+)-([0-9a-fA-F]+)-([0-9a-fA-F]+)-([0-9a-fA-F]+)-([0-9a-fA-F]+)", re.ASCII)


def deserialize_uuid(topic: str, data: bytes | None) -> uuid.UUID | None:
    """Decode the UUID's text."""
    if data is None:
        return None
    match = _UUID_GROUPS.fullmatch(str(data, "latin-1")) if len(data) <= UUID_LENGTH else None
    if match is None:
        unreadable(topic, "UUIDDeserializer", f"error parsing data into UUID: {data[:UUID_LENGTH]!r}")
    first, second, third, fourth, fifth = (int(group, 16) for group in match.groups())
    high = (first & 0xFFFFFFFF) << 96 | (second & 0xFFFF) << 80 | (third & 0xFFFF) << 64
    return uuid.UUID(int=high | (fourth & 0xFFFF) << 48 | fifth & 0xFFFFFFFFFFFF)


def serialize_void(topic: str, value: None) -> None:
    """Return None."""
    return None


def deserialize_void(topic: str, data: bytes | None) -> None:
    """Return None for None. Other data are an error."""
    if data is not None:
        unreadable(topic, "VoidDeserializer", f"data should be null for a VoidDeserializer, got {len(data)} bytes")


_json_encoder: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
# `JSONEncoder.encode` makes this encoder for each value: 1 of 2.5 us. Without markers it detects a circular value only by its
# depth; `_json_encoder` then raises the error.
_encode_parts: Final = c_make_encoder and c_make_encoder(
    None, _json_encoder.default, encode_basestring, None, ":", ",", False, False, False
)


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError(f"{text[:40]} is larger than any number of 64 bits")
    return number


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is Python's, JSON has no such number")


_json_decoder: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_number)
_decode_json: Final = _json_decoder.decode
# The inner part of `decode`, without its searches for blanks: 1.6 instead of 3.2 us.
_scan_json: Final = _json_decoder.scan_once  # type: ignore[attr-defined]  # public, and missing in the stubs


# 1.1 instead of 2.7 us for an order of 80 bytes. It accepts a subset of `parse_json` with equal results; `parse_json` handles
# the rest.
decode_json: Final = msgspec.json.Decoder().decode
NotPlainJson: Final = msgspec.DecodeError


def read_json(data: bytes) -> Any:
    """Parse UTF-8 JSON like `parse_json`. Raises ValueError or RecursionError.

    >>> read_json(b'{"a":[1.5]}')
    {'a': [1.5]}
    """
    try:
        return decode_json(data)
    except (NotPlainJson, UnicodeDecodeError, RecursionError):
        return parse_json(str(data, "utf-8"))


def parse_json(text: str) -> Any:
    """Parse JSON that can be written again. Raises ValueError for other text.

    Python's parser accepts `NaN` and `Infinity`, converts `1e999` to infinity, and accepts lone surrogates, which UTF-8
    cannot encode. These would fail later, when a result is written or a store is read.

    >>> parse_json("[1.5]")
    [1.5]
    >>> parse_json("NaN")
    Traceback (most recent call last):
        ...
    ValueError: NaN is Python's, JSON has no such number
    """
    try:
        value, end = _scan_json(text, 0)
    except StopIteration:
        end = -1
    if end != len(text):
        value = _decode_json(text)  # surrounded by blanks, or invalid: then this raises the error
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        try:
            _json_encoder.encode(value).encode()
        except UnicodeEncodeError as exc:
            raise ValueError("it has half of a surrogate pair, which is no character") from exc
    return value


def _as_python_writes(text: str) -> float:
    number = float(text)
    if repr(number) != text:
        raise ArithmeticError  # an internal signal; msgspec would wrap a ValueError, in 3 us
    return number


# msgspec accepts more than JSON: dates, bytes, numbers as keys, `null` for NaN. If a value is equal after decoding, its bytes
# are those of Python's encoder, provided that floats have the same text. 0.8 us for an order of 80 bytes, Python's encoder
# 2.2.
_encode_fast: Final = msgspec.json.Encoder().encode
_decode_again: Final = msgspec.json.Decoder(float_hook=_as_python_writes).decode

_may_be_changed: Final = re.compile(r'"(?:-?[0-9][-+.0-9e]*|true|false|null)":').search
_CONTAINERS: Final = (dict, list, tuple)


def encode_json(value: Any) -> bytes:
    """Encode as compact UTF-8 JSON that decodes to an equal value. Raises TypeError, ValueError or RecursionError.

    Python writes the key 1 as "1" and reads it back as text. A count by number would then start again with each record.

    >>> encode_json({"a": [1.5]})
    b'{"a":[1.5]}'
    >>> encode_json({"a": {None: 2}})
    Traceback (most recent call last):
        ...
    TypeError: the key None (NoneType) of a dict would come back as text; make it a str
    """
    try:
        data = _encode_fast(value)
        if _decode_again(data) == value:
            return data
    except Exception:  # noqa: BLE001, S110 - the encoder below writes the value or raises the error
        pass
    if type(value) is dict and _encode_parts is not None:
        try:
            text = "".join(_encode_parts(value, 0))
        except RecursionError:
            text = _json_encoder.encode(value)
    else:
        text = _json_encoder.encode(value)
    # Checking every key would double the time. A dict without inner dicts is checked in one call, 0.3 of 2.7 us. Otherwise a
    # changed key appears in the text as a number or a constant, or not at all: 1.2 of 4.8 us.
    if text.find("{", 1) < 0:
        if isinstance(value, dict):
            _check_own_keys(value)
    elif _may_be_changed(text):
        _check_keys(value)
    return text.encode()


def _check_own_keys(value: dict[Any, Any]) -> None:
    try:
        "".join(value)
    except TypeError:
        key = next(key for key in value if not isinstance(key, str))
        kind = type(key).__name__
        typed = "" if key is None else f", or name the type, as in Serdes.json(dict[{kind}, Any])"
        raise TypeError(f"the key {key!r} ({kind}) of a dict would come back as text; make it a str{typed}") from None


def _check_keys(value: Any) -> None:
    if isinstance(value, dict):
        _check_own_keys(value)
        value = value.values()
    for item in value:
        if isinstance(item, _CONTAINERS):
            _check_keys(item)


def serialize_json(topic: str, value: Any) -> bytes | None:
    """Encode as compact UTF-8 JSON with fields in the dict's order. Keys that are not str, `NaN` and infinities are refused."""
    if value is None:
        return None
    try:
        return encode_json(value)
    except (TypeError, ValueError, RecursionError) as exc:
        refuse(topic, value, "the JSON serializer", f"something JSON can hold ({exc})", exc)


def deserialize_json(topic: str, data: bytes | None) -> Any:
    """Decode UTF-8 JSON. `NaN`, infinities and lone surrogates are refused."""
    if data is None:
        return None
    try:
        return read_json(data)
    except (ValueError, RecursionError) as exc:
        unreadable(topic, "the JSON deserializer", f"data received by the JSON deserializer is not JSON: {exc}", exc)


# These functions accept None and take no headers, so they are called without an adapter.
for _name, _function in list(vars().items()):
    if _name.startswith(("serialize_", "deserialize_")):
        _function.called_directly = True
