"""How keys and values look outside of Python: as JSON, and as columns of a table."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import uuid
from typing import Any

from penstock.serdes import codecs as codecs
from penstock.serdes.json_libraries import library_of
from penstock.serdes.lists import ListDeserializer
from penstock.serdes.serde import as_deserializer, as_serializer
from penstock.serdes.typed_json import TypedJsonDeserializer

_TYPES = {
    codecs.deserialize_string: "string",
    codecs.deserialize_long: "bigint",
    codecs.deserialize_integer: "int",
    codecs.deserialize_short: "smallint",
    codecs.deserialize_double: "double",
    codecs.deserialize_float: "float",
    codecs.deserialize_boolean: "boolean",
    codecs.deserialize_bytes: "binary",
    codecs.deserialize_byte_buffer: "binary",
    codecs.deserialize_uuid: "string",
    codecs.deserialize_void: "void",
}


def sql_type(serde: Any) -> str:
    """The SQL type of what a serde reads; what has none is shown as JSON in a string.

    >>> from penstock.serdes.serde import Serdes
    >>> sql_type(Serdes.long()), sql_type(Serdes.list_of(Serdes.string())), sql_type(Serdes.json())
    ('bigint', 'array<string>', 'string')
    """
    deserializer = as_deserializer(serde)
    if isinstance(deserializer, ListDeserializer):
        return f"array<{sql_type(deserializer.inner)}>"
    try:
        return _TYPES.get(deserializer, "string")  # type: ignore[arg-type]
    except TypeError:
        return "string"


def is_text(serde: Any) -> bool:
    """Whether keys of a serde are text, and so stand in a path as they are."""
    return as_deserializer(serde) in (codecs.deserialize_string, codecs.deserialize_uuid)


def is_builtin(serde: Any) -> bool:
    """Return whether a serde is one of the library's simple ones, which are fast.

    >>> from penstock.serdes.serde import Serdes
    >>> is_builtin(Serdes.json()), is_builtin(Serdes.serde(Serdes.json().serializer, print))
    (True, False)
    """
    deserializer = as_deserializer(serde)
    if isinstance(deserializer, ListDeserializer):
        return is_builtin(deserializer.inner)
    return all(getattr(half, "__module__", None) == codecs.__name__ for half in (deserializer, as_serializer(serde)))


def as_column(value: Any, kind: str) -> Any:
    """A value as a column of a SQL type holds it."""
    if value is None:
        return None
    if kind == "string":
        if isinstance(value, str):
            return value
        return str(value) if isinstance(value, uuid.UUID) else json.dumps(as_json(value), ensure_ascii=False)
    if kind == "binary":
        return bytes(value)
    if kind.startswith("array<"):
        return [as_column(item, kind[6:-1]) for item in value]
    return value


def as_json(value: Any) -> Any:
    """A value as JSON can hold it: bytes as base64 text, records as objects, what is left as its text.

    >>> as_json({"id": uuid.UUID(int=1), "data": b"ab", 3: float("nan")})
    {'id': '00000000-0000-0000-0000-000000000001', 'data': 'YWI=', '3': None}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    library = library_of(type(value))
    if library is not None:
        return as_json(library.plain(type(value))[0](value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def from_json(value: Any, serde: Any) -> Any:
    """A key as a serde takes it, from what JSON holds; raises ValueError where it does not fit.

    >>> from penstock.serdes.serde import Serdes
    >>> from_json("YWI=", Serdes.bytes())
    b'ab'
    """
    deserializer = as_deserializer(serde)
    if deserializer in (codecs.deserialize_bytes, codecs.deserialize_byte_buffer):
        if not isinstance(value, str):
            raise ValueError("bytes are written as a base64 string")
        return base64.b64decode(value, validate=True)
    if deserializer is codecs.deserialize_uuid:
        return uuid.UUID(str(value))
    if deserializer in (codecs.deserialize_long, codecs.deserialize_integer, codecs.deserialize_short):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("expected a whole number")
    elif deserializer in (codecs.deserialize_double, codecs.deserialize_float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("expected a number")
        return float(value)
    elif deserializer is codecs.deserialize_boolean and not isinstance(value, bool):
        raise ValueError("expected true or false")
    elif deserializer is codecs.deserialize_string and not isinstance(value, str):
        raise ValueError("expected a string")
    elif isinstance(deserializer, TypedJsonDeserializer):
        return deserializer.from_plain(value)
    elif isinstance(deserializer, ListDeserializer):
        if not isinstance(value, list):
            raise ValueError("expected a list")
        return [from_json(item, deserializer.inner) for item in value]
    return value
