"""The halves of `Serdes.json(T)`. The conversions are compiled once in a process; only the type is pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import SerializationError
from penstock.serdes.arguments import is_class
from penstock.serdes.codecs import encode_json, read_json, unreadable
from penstock.serdes.json_libraries import MSGSPEC, Library, library_of
from penstock.serdes.json_scalars import JsonType
from penstock.serdes.json_types import json_type


class _TypedJson:
    __slots__ = ("_call", "_library", "_type", "annotation", "call", "name")

    called_directly = True

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.name = f"Serdes.json({annotation.__qualname__ if is_class(annotation) else annotation})"
        self._library: Library | None = library_of(annotation) if is_class(annotation) else None
        self._type: JsonType | None = None if self._library is not None else json_type(annotation, self.name)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self.annotation == other.annotation)

    def __hash__(self) -> int:
        return hash((type(self), self.annotation))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.annotation,)


class TypedJsonSerializer(_TypedJson):
    """Serializes objects of a type to JSON."""

    __slots__ = ()

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        self._call: Callable[[Any], bytes] = self._through_library() if self._library is not None else self._through_type()
        self.call = self._call
        """The same for a value that is there, for callers that ask again if it raises anything."""

    def __call__(self, topic: str, value: Any) -> bytes | None:
        """Return compact JSON in UTF-8. Values of other types are refused."""
        if value is None:
            return None
        try:
            return self._call(value)
        except (TypeError, ValueError, RecursionError) as exc:
            raise SerializationError(
                f"{self.name} cannot serialize a value of type {type(value).__name__} for topic {topic!r}: {exc}"
            ) from exc

    def _through_type(self) -> Callable[[Any], bytes]:
        assert self._type is not None
        write = self._type.write
        return lambda value: encode_json(write(value))

    def _through_library(self) -> Callable[[Any], bytes]:
        assert self._library is not None
        dumps, cls = self._library.dumps(self.annotation), self.annotation

        def call(value: Any) -> bytes:
            if type(value) is not cls:
                raise TypeError(f"expected {cls.__qualname__}")
            return dumps(value)

        return call


class TypedJsonDeserializer(_TypedJson):
    """Deserializes objects of a type from JSON."""

    __slots__ = ()

    def __init__(self, annotation: Any) -> None:
        super().__init__(annotation)
        self._call: Callable[[bytes], Any]
        self.call: Callable[[bytes], Any]
        if self._library is not None:
            loads = self._library.loads(annotation)
            self._call = lambda data: loads(_json_only(data))
            self.call = loads if self._library is MSGSPEC else self._call  # msgspec refuses such numbers itself
        else:
            assert self._type is not None
            read = self._type.read
            self._call = self.call = lambda data: read(read_json(data))

    def __call__(self, topic: str, data: bytes | None) -> Any:
        """Return an object of the type. Unknown fields are ignored; missing fields take their defaults."""
        if data is None:
            return None
        try:
            return self._call(data)
        except (TypeError, ValueError, RecursionError) as exc:
            unreadable(topic, self.name, f"data received by {self.name} does not fit: {exc}", exc)

    def from_plain(self, value: Any) -> Any:
        """Convert plain JSON values to an object of the type. Raises ValueError for values that do not match."""
        return self._call(encode_json(value))


def _json_only(data: bytes) -> bytes:
    """Return the bytes. Raises ValueError for numbers that JSON does not have, which pydantic would accept."""
    if b"NaN" in data or b"Infinity" in data:
        read_json(data)
    return data
