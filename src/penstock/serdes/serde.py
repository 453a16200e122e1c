"""Serdes: conversion of values to bytes and back, with the bytes of Java's serdes.

A serializer is a function `(topic, value) -> bytes | None`, a deserializer `(topic, bytes | None) -> value`. A `Serde` has
one of each. None stands for null in both directions.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NoReturn, TypeVar, overload

from penstock.errors import ConfigError
from penstock.import_paths import imported
from penstock.java_names import JavaNames
from penstock.serdes.arguments import refuse_factory
from penstock.serdes.codecs import (
    Deserializer,
    Serializer,
    StringEncoding,
    deserialize_boolean,
    deserialize_byte_buffer,
    deserialize_bytes,
    deserialize_double,
    deserialize_float,
    deserialize_integer,
    deserialize_json,
    deserialize_long,
    deserialize_short,
    deserialize_string,
    deserialize_uuid,
    deserialize_void,
    serialize_boolean,
    serialize_bytes,
    serialize_double,
    serialize_float,
    serialize_integer,
    serialize_json,
    serialize_long,
    serialize_short,
    serialize_string,
    serialize_uuid,
    serialize_void,
)
from penstock.serdes.contract import as_deserializer, as_serializer, shown_half
from penstock.serdes.lists import ListDeserializer, ListSerializer
from penstock.serdes.typed_json import TypedJsonDeserializer, TypedJsonSerializer

__all__ = [
    "Deserializer",
    "Serde",
    "Serdes",
    "Serializer",
    "WrappingNullable",
    "as_deserializer",
    "as_serializer",
    "resolve_serde",
]

T = TypeVar("T")
_T = TypeVar("_T")

NO_PICKLE: Final = (
    "reading a pickle runs code from its bytes, so every client that may write to the topic could run code in the application, "
    "and other languages cannot read it. Serdes.json(T) keeps dataclasses, TypedDicts and pydantic models"
)

# Serdes has methods with the names of these types, so its annotations need aliases.
_Bytes = bytes
_Float = float


class Serde(Generic[T]):
    """A serializer with its deserializer.

    Made of two functions, or a subclass with the methods `serialize(topic, value)` and `deserialize(topic, data)`. Either may
    take the record's `headers` as a third argument. None stays None and reaches only functions with `handles_none = True`.

    A subclass may also have `configure(configs, is_key)` and `close()`. As in Kafka Streams, penstock calls them for objects
    that it makes itself from a class or a name in `default.key.serde` and `default.value.serde`.

    >>> serde = Serde(lambda topic, value: value.encode(), lambda topic, data: data.decode())
    >>> serde.deserializer("topic", serde.serializer("topic", "a"))
    'a'
    >>> class Upper(Serde[str]):
    ...     def serialize(self, topic, value):
    ...         return value.upper().encode()
    ...     def deserialize(self, topic, data):
    ...         return data.decode()
    >>> Upper(), Upper().serializer("topic", "a")
    (Upper(), b'A')
    """

    __slots__ = ("_name", "deserializer", "serializer")

    handles_none: bool = False
    serializer: Callable[[str, T | None], bytes | None]
    deserializer: Callable[[str, bytes | None], T | None]

    def __init__(
        self, serializer: Serializer | None = None, deserializer: Deserializer | None = None, name: str | None = None
    ) -> None:
        if serializer is not None:
            self.serializer = serializer if callable(serializer) else as_serializer(serializer)
        if deserializer is not None:
            self.deserializer = deserializer if callable(deserializer) else as_deserializer(deserializer)
        self._name = name
        if not callable(getattr(self, "serializer", None)) or not callable(getattr(self, "deserializer", None)):
            raise TypeError(
                f"{type(self).__qualname__} needs a serializer and a deserializer: two functions, or a subclass with the methods "
                "serialize(topic, value) and deserialize(topic, data)"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Serde):
            return NotImplemented
        return bool(self.serializer == other.serializer and self.deserializer == other.deserializer)

    def __hash__(self) -> int:
        return hash((Serde, self.serializer, self.deserializer))

    def __getattr__(self, name: str) -> Any:
        # A subclass with these methods need not call the constructor.
        if name == "_name":
            return None
        method = {"serializer": "serialize", "deserializer": "deserialize"}.get(name)
        if method is not None and hasattr(type(self), method):
            return getattr(self, method)
        needed = f": it needs {method}(topic, …), or Serde.__init__ with both functions" if method else ""
        raise AttributeError(f"{type(self).__qualname__} has no attribute {name!r}{needed}")

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Pass the application's settings to the serializer and the deserializer if they take them."""
        for half in self._objects():
            if callable(getattr(half, "configure", None)):
                half.configure(configs, is_key)

    def close(self) -> None:
        """Close the serializer and the deserializer if they can be closed."""
        for half in self._objects():
            if callable(getattr(half, "close", None)):
                half.close()

    def _objects(self) -> list[Any]:
        halves = [getattr(half, "given", half) for half in (self.serializer, self.deserializer)]
        return [half for half in halves if getattr(half, "__self__", None) is not self]

    def __repr__(self) -> str:
        # By names: the repr of a bound method would recurse.
        if self._name:
            return self._name
        if type(self) is not Serde:
            return f"{type(self).__qualname__}()"
        return f"Serde({shown_half(self.serializer)}, {shown_half(self.deserializer)})"


class WrappingNullable:
    """A wrapping serializer or deserializer whose inner one may be unknown until the defaults are known."""

    __slots__ = ()

    called_directly = True

    def set_if_unset(self, getter: Any) -> None:
        """Take a missing inner one from `getter.key_serde` and `getter.value_serde`."""
        raise TypeError(f"{type(self).__name__} must implement set_if_unset(getter)")


def _given(half: Any, which: str) -> Any:
    """Return the half of an argument of `Serdes.serde`, which is a callable or a serde."""
    found = getattr(half, which, None)
    if callable(found):
        return found
    if callable(half) or callable(getattr(half, which.removesuffix("r"), None)):
        refuse_factory(half)
        return half
    raise TypeError(f"expected a serde or a {which} (a callable), got {half!r}")


_STRING: Final[Serde[str]] = Serde(serialize_string, deserialize_string, "Serdes.string()")
_LONG_SERDE: Final[Serde[int]] = Serde(serialize_long, deserialize_long, "Serdes.long()")
_INTEGER_SERDE: Final[Serde[int]] = Serde(serialize_integer, deserialize_integer, "Serdes.integer()")
_SHORT_SERDE: Final[Serde[int]] = Serde(serialize_short, deserialize_short, "Serdes.short()")
_DOUBLE_SERDE: Final[Serde[float]] = Serde(serialize_double, deserialize_double, "Serdes.double()")
_FLOAT_SERDE: Final[Serde[float]] = Serde(serialize_float, deserialize_float, "Serdes.float()")
_BOOLEAN: Final[Serde[bool]] = Serde(serialize_boolean, deserialize_boolean, "Serdes.boolean()")
_BYTES: Final[Serde[bytes]] = Serde(serialize_bytes, deserialize_bytes, "Serdes.bytes()")
_BYTE_BUFFER: Final[Serde[memoryview]] = Serde(serialize_bytes, deserialize_byte_buffer, "Serdes.byte_buffer()")
_UUID: Final[Serde[uuid.UUID]] = Serde(serialize_uuid, deserialize_uuid, "Serdes.uuid()")
_VOID: Final[Serde[None]] = Serde(serialize_void, deserialize_void, "Serdes.void()")
_JSON: Final[Serde[Any]] = Serde(serialize_json, deserialize_json, "Serdes.json()")


class Serdes(JavaNames):
    """The serdes of penstock, with the bytes of Java's serdes of the same names.

    >>> Serdes.long().serializer("topic", 258)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02'
    >>> Serdes.list_of(Serdes.string()).deserializer("topic", Serdes.list_of(Serdes.string()).serializer("topic", ["a", None]))
    ['a', None]
    """

    @staticmethod
    def string(encoding: str = "UTF-8") -> Serde[str]:
        """str as UTF-8 or in another encoding, with Java's bytes.

        >>> Serdes.string("ISO-8859-1").serializer("topic", "é")
        b'\\xe9'
        """
        try:
            found = StringEncoding(encoding)
        except LookupError as exc:
            raise ConfigError(f"Serdes.string({encoding!r}): {exc}. Give the name of an encoding of Python's.") from None
        return _STRING if found.name == "utf-8" else Serde(found.serialize, found.deserialize, f"Serdes.string({encoding!r})")

    @staticmethod
    def long() -> Serde[int]:
        """int as 8 bytes, big-endian."""
        return _LONG_SERDE

    @staticmethod
    def integer() -> Serde[int]:
        """int as 4 bytes, big-endian."""
        return _INTEGER_SERDE

    @staticmethod
    def short() -> Serde[int]:
        """int as 2 bytes, big-endian."""
        return _SHORT_SERDE

    @staticmethod
    def double() -> Serde[_Float]:
        """float as 8 bytes, big-endian."""
        return _DOUBLE_SERDE

    @staticmethod
    def float() -> Serde[_Float]:
        """float as 4 bytes, big-endian."""
        return _FLOAT_SERDE

    @staticmethod
    def boolean() -> Serde[bool]:
        """bool as one byte."""
        return _BOOLEAN

    @staticmethod
    def bytes() -> Serde[_Bytes]:
        """bytes, unchanged."""
        return _BYTES

    @staticmethod
    def byte_array() -> Serde[_Bytes]:
        """bytes, unchanged; Kafka's name."""
        return _BYTES

    @staticmethod
    def byte_buffer() -> Serde[memoryview]:
        """bytes, read as a memoryview."""
        return _BYTE_BUFFER

    @staticmethod
    def uuid() -> Serde[uuid.UUID]:
        """uuid.UUID as its text."""
        return _UUID

    @staticmethod
    def void() -> Serde[None]:
        """Null only."""
        return _VOID

    @overload
    @staticmethod
    def json() -> Serde[Any]: ...

    @overload
    @staticmethod
    def json(T: type[_T]) -> Serde[_T]: ...

    @overload
    @staticmethod
    def json(T: Any) -> Serde[Any]: ...

    @staticmethod
    def json(T: Any = None) -> Serde[Any]:
        """Compact JSON in UTF-8: objects of a type, or without a type any JSON value.

        `T` is a dataclass, a TypedDict, a pydantic model, a msgspec Struct, or contains such, as `list[Order]`. Values are
        checked against it in both directions. Without it fields keep their order, and values that would be read differently
        are refused: NaN, infinity, keys that are not str.

        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     id: int
        ...     items: list[str]
        >>> data = Serdes.json(Order).serializer("orders", Order(1, ["tea"]))
        >>> data, Serdes.json(Order).deserializer("orders", data)
        (b'{"id":1,"items":["tea"]}', Order(id=1, items=['tea']))
        """
        if T is None:
            return _JSON
        write = TypedJsonSerializer(T)
        return Serde(write, TypedJsonDeserializer(T), write.name)

    @staticmethod
    def pickle() -> NoReturn:
        """Raise ConfigError with the reason."""
        raise ConfigError(f"there is no pickle serde: {NO_PICKLE}")

    @staticmethod
    def list_of(inner: Any) -> Serde[list[Any]]:
        """A list of values of `inner`, in the format of Java's ListSerde. Entries may be None."""
        inner = resolve_serde(inner, "the inner serde of list_of")
        write, read = as_serializer(inner), as_deserializer(inner)
        assert write is not None
        assert read is not None
        return Serde(ListSerializer(write), ListDeserializer(read), f"Serdes.list_of({inner!r})")

    @staticmethod
    def serde(serializer: Any, deserializer: Any) -> Serde[Any]:
        """Make a serde from two callables `(topic, value) -> bytes` and `(topic, bytes) -> value`."""
        if serializer is None or deserializer is None:
            raise ConfigError("Serdes.serde needs a serializer and a deserializer, got None")
        return Serde(_given(serializer, "serializer"), _given(deserializer, "deserializer"))

    @overload
    @staticmethod
    def serde_from(python_type: type[_T]) -> Serde[_T]: ...

    @overload
    @staticmethod
    def serde_from(python_type: Any) -> Serde[Any]: ...

    @staticmethod
    def serde_from(python_type: Any) -> Serde[Any]:
        """Return the serde of a Python type: str, int (long), float (double), bool, bytes, bytearray, memoryview, uuid.UUID.

        For a dataclass, a TypedDict, a model, or a type that contains such, as `list[Order]`, it is `Serdes.json(T)`.
        Arguments for serdes also accept a type with this meaning.

        >>> Serdes.serde_from(int), Serdes.serde_from(dict[str, int])
        (Serdes.long(), Serdes.json(dict[str, int]))
        """
        if isinstance(python_type, type) and python_type in _BY_TYPE:
            return _BY_TYPE[python_type]
        try:
            return Serdes.json(python_type)
        except ConfigError as exc:
            supported = ", ".join(sorted(known.__name__ for known in _BY_TYPE))
            raise ConfigError(
                f"no built-in serde for {python_type!r}; supported types are {supported}, and what Serdes.json(T) takes: {exc}"
            ) from None


_BY_TYPE: Final[Mapping[type, Serde[Any]]] = {
    str: _STRING,
    int: _LONG_SERDE,
    float: _DOUBLE_SERDE,
    bool: _BOOLEAN,
    bytes: _BYTES,
    bytearray: _BYTES,
    memoryview: _BYTE_BUFFER,
    uuid.UUID: _UUID,
    type(None): _VOID,
}

_BY_NAME: Final[Mapping[str, Serde[Any]]] = {
    "string": _STRING,
    "long": _LONG_SERDE,
    "integer": _INTEGER_SERDE,
    "short": _SHORT_SERDE,
    "double": _DOUBLE_SERDE,
    "float": _FLOAT_SERDE,
    "boolean": _BOOLEAN,
    "bytes": _BYTES,
    "byte_array": _BYTES,
    "bytearray": _BYTES,
    "byte_buffer": _BYTE_BUFFER,
    "bytebuffer": _BYTE_BUFFER,
    "uuid": _UUID,
    "void": _VOID,
    "json": _JSON,
}


def resolve_serde(value: Any, what: str = "serde") -> Serde[Any]:
    """Return the serde of a configured value. `what` names the key in errors.

    A value is a serde, a class or a factory of one, a Python type, a name (`string`, `long`, also Java's `StringSerde`), or
    an import path (`module:attribute` or `module.attribute`).

    >>> resolve_serde("string"), resolve_serde("org.apache.kafka.common.serialization.Serdes$LongSerde"), resolve_serde(str)
    (Serdes.string(), Serdes.long(), Serdes.string())
    """
    if isinstance(value, Serde):
        return value
    if isinstance(value, str):
        return _serde_of_name(value, what)
    if isinstance(value, type) and value in _BY_TYPE:
        return _BY_TYPE[value]
    if isinstance(value, type):
        return _called(value, what)
    if callable(getattr(value, "serializer", None)) and callable(getattr(value, "deserializer", None)):
        return Serde(value.serializer, value.deserializer, shown_half(value))
    if callable(getattr(value, "serialize", None)) and callable(getattr(value, "deserialize", None)):
        return _OfObject(value)
    if callable(value):
        return _called(value, what)
    raise ConfigError(f"{what} = {value!r} is not a serde: give a serde, its class, its import path, or one of {_names()}")


class _OfObject(Serde[Any]):
    """A serde of an object with `serialize` and `deserialize`."""

    __slots__ = ("_object",)

    def __init__(self, given: Any) -> None:
        super().__init__(given.serialize, given.deserialize, f"{type(given).__qualname__}()")
        self._object = given

    def _objects(self) -> list[Any]:
        return [self._object]


def _called(factory: Any, what: str) -> Serde[Any]:
    try:
        made = factory()
    except Exception as exc:
        raise ConfigError(f"{what} = {factory!r} could not be called without arguments to make a serde: {exc}") from exc
    if isinstance(made, str | type) or (callable(made) and not hasattr(made, "serialize")):
        raise ConfigError(f"{what} = {factory!r} did not make a serde but {made!r}")
    return resolve_serde(made, what)


def _serde_of_name(name: str, what: str) -> Serde[Any]:
    if name.lower() == "pickle":
        raise ConfigError(f"{what} = {name!r} is refused: {NO_PICKLE}")
    known = _BY_NAME.get(name.lower())
    if known is not None:
        return known
    last = re.split(r"[.$:]", name)[-1]
    if last.endswith("Serde") and (known := _BY_NAME.get(last.removesuffix("Serde").lower())) is not None:
        return known
    try:
        found = imported(name)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigError(f"{what} = {name!r} is not a serde: {exc}; give an import path or one of {_names()}") from exc
    return resolve_serde(found, what)


def _names() -> str:
    return ", ".join(sorted(_BY_NAME))
