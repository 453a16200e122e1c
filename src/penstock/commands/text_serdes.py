"""Serdes by name for the command line: text to bytes for `penstock produce`, bytes to text for `penstock consume`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.commands.common import WRONG_USE, fail
from penstock.errors import SerializationError
from penstock.printable import printable
from penstock.serdes.serde import Serde, Serdes, resolve_serde

_SHOWN = 50


class _Kind(NamedTuple):
    parse: Callable[[bytes], Any]
    expected: str


class TextSerde:
    """A serde of a record's key or value, as text on one line.

    >>> TextSerde("long").encode("orders", b"42")
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00*'
    >>> TextSerde("json").decode("orders", b'{"amount": 30}')
    '{"amount":30}'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._kind = _KINDS[name]
        self._serde: Serde[Any] = resolve_serde(name)

    @classmethod
    def named(cls, name: str, option: str) -> TextSerde:
        """Return the serde of an option. Ends the command if the name is unknown."""
        if name not in _KINDS:
            fail(f"There is no serde {name!r} for {option}. Use one of {', '.join(_KINDS)}", WRONG_USE)
        return cls(name)

    def encode(self, topic: str, text: bytes) -> bytes | None:
        """Return the bytes of a key or value. Raises SerializationError for text that the serde cannot write."""
        try:
            return self._serde.serializer(topic, self._kind.parse(text))
        except ValueError as exc:
            shown = text.decode(errors="backslashreplace")
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
            raise SerializationError(f"{shown!r} cannot be written as {self.name}: expected {self._kind.expected}") from exc

    def decode(self, topic: str, data: bytes | None) -> str:
        """Return one printable line, `null` for None. Raises SerializationError for bytes that the serde cannot read."""
        try:
            value = self._serde.deserializer(topic, data)
        except SerializationError as exc:
            length = 0 if data is None else len(data)
            raise SerializationError(f"{length} bytes cannot be read as {self.name}: expected {self._kind.expected}") from exc
        if value is None:
            return "null"
        if isinstance(value, bytes):
            return printable(value.decode(errors="backslashreplace"))
        if self.name == "json":
            return printable((self._serde.serializer(topic, value) or b"").decode())
        return printable(str(value).lower() if isinstance(value, bool) else str(value))


def _boolean(text: bytes) -> bool:
    word = text.strip().lower()
    if word not in (b"true", b"false"):
        raise ValueError(text)
    return word == b"true"


def _json(text: bytes) -> Any:
    return Serdes.json().deserializer("", text)


def _nothing(text: bytes) -> None:
    if text:
        raise ValueError(text)


_KINDS: Final[Mapping[str, _Kind]] = {
    "string": _Kind(bytes.decode, "UTF-8"),
    "json": _Kind(_json, "JSON in UTF-8"),
    "long": _Kind(int, "a whole number of 64 bits"),
    "integer": _Kind(int, "a whole number of 32 bits"),
    "short": _Kind(int, "a whole number of 16 bits"),
    "double": _Kind(float, "a number of 64 bits"),
    "float": _Kind(float, "a number of 32 bits"),
    "boolean": _Kind(_boolean, "true or false"),
    "uuid": _Kind(lambda text: uuid.UUID(text.decode().strip()), "a UUID"),
    "bytes": _Kind(bytes, "any bytes"),
    "void": _Kind(_nothing, "nothing"),
}
