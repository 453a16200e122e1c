"""Simple types in JSON: numbers, text, and types with a text form, such as times and Decimals."""

from __future__ import annotations

import base64
import datetime
import decimal
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.serdes.codecs import encode_json


class MismatchError(ValueError):
    """A value that does not match its type. `path` is built from the innermost field outwards."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where}: {self.args[0]}" if where else str(self.args[0])


class JsonType(NamedTuple):
    """The conversions of a type: `write` to plain JSON values, `read` back. Both raise MismatchError.

    `kinds` are the Python types of its JSON values, `classes` those of its own values; they distinguish the members of a
    union. A value of exactly the type `plain` is equal in JSON, so `write` and `read` are skipped.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    kinds: frozenset[type]
    classes: frozenset[type]
    plain: type | None = None


class KeyText(NamedTuple):
    """A type with a text form, which can be a key."""

    cls: type
    to_text: Callable[[Any], str]
    from_text: Callable[[str], Any]


def mismatch(expected: str, value: Any) -> MismatchError:
    """Return the error for an unexpected value."""
    return MismatchError(f"expected {expected}, got {short(value)} ({type(value).__name__})")


def short(value: Any) -> str:
    """Return a value in a short form for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _same(cls: type, expected: str) -> JsonType:
    def same(value: Any) -> Any:
        if not isinstance(value, cls) or (cls is int and isinstance(value, bool)):
            raise mismatch(expected, value)
        return value

    return JsonType(same, same, frozenset({cls}), frozenset({cls}), cls)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch("a number", value)
    return float(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise mismatch("None", value)


def _anything(value: Any) -> Any:
    try:
        encode_json(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise MismatchError(str(exc)) from exc
    return value


def _text(cls: type, to_text: Callable[[Any], str], from_text: Callable[[str], Any], expected: str) -> JsonType:
    def write(value: Any) -> str:
        # A datetime is an instance of date, but is not written as a date.
        if not isinstance(value, cls) or (cls is datetime.date and isinstance(value, datetime.datetime)):
            raise mismatch(expected, value)
        return to_text(value)

    def read(data: Any) -> Any:
        if type(data) is not str:
            raise mismatch(f"{expected} as text", data)
        try:
            return from_text(data)
        except (ValueError, ArithmeticError) as exc:
            raise MismatchError(f"{short(data)} is not {expected}") from exc

    return JsonType(write, read, frozenset({str}), frozenset({cls}))


def _decimal(text: str) -> decimal.Decimal:
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError(f"{text} is no number")
    return number


def _decimal_text(number: decimal.Decimal) -> str:
    if not number.is_finite():
        raise MismatchError(f"{number} is no number")
    return str(number)


_DECIMAL: Final = _text(decimal.Decimal, _decimal_text, _decimal, "a Decimal")


def _any_decimal(data: Any) -> Any:
    # Other programs write numbers. A float's digits are those of its text.
    return _DECIMAL.read(repr(data) if type(data) in (int, float) else data)


def _iso(cls: Any) -> Callable[[str], Any]:
    if sys.version_info >= (3, 11):
        parse: Callable[[str], Any] = cls.fromisoformat
        return parse
    # Before 3.11 Python does not parse a Z for UTC.
    return lambda text: cls.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _whole(text: str) -> int:
    number = int(text)
    if str(number) != text:
        raise ValueError(text)
    return number


KEY_TEXTS: Final[Mapping[type, KeyText]] = {
    str: KeyText(str, str, str),
    int: KeyText(int, lambda number: int.__repr__(number), _whole),
    float: KeyText(float, lambda number: float.__repr__(number), float),
    bool: KeyText(bool, lambda flag: "true" if flag else "false", {"true": True, "false": False}.__getitem__),
    uuid.UUID: KeyText(uuid.UUID, str, uuid.UUID),
    decimal.Decimal: KeyText(decimal.Decimal, _decimal_text, _decimal),
    datetime.date: KeyText(datetime.date, lambda date: date.isoformat(), _iso(datetime.date)),
    datetime.datetime: KeyText(datetime.datetime, lambda time: time.isoformat(), _iso(datetime.datetime)),
}
SIMPLE: Final[Mapping[Any, JsonType]] = {
    str: _same(str, "str"),
    int: _same(int, "int"),
    bool: _same(bool, "bool"),
    float: JsonType(_number, _number, frozenset({float, int}), frozenset({float}), float),
    None: JsonType(_nothing, _nothing, frozenset({type(None)}), frozenset({type(None)}), type(None)),
    type(None): JsonType(_nothing, _nothing, frozenset({type(None)}), frozenset({type(None)}), type(None)),
    Any: JsonType(_anything, lambda data: data, frozenset({object}), frozenset({object})),
    object: JsonType(_anything, lambda data: data, frozenset({object}), frozenset({object})),
    bytes: _text(bytes, lambda data: base64.b64encode(data).decode(), _from_base64, "bytes"),
    uuid.UUID: _text(uuid.UUID, str, uuid.UUID, "a UUID"),
    decimal.Decimal: _DECIMAL._replace(read=_any_decimal),
    datetime.datetime: _text(datetime.datetime, lambda time: time.isoformat(), _iso(datetime.datetime), "a datetime"),
    datetime.date: _text(datetime.date, lambda date: date.isoformat(), _iso(datetime.date), "a date"),
    datetime.time: _text(datetime.time, lambda time: time.isoformat(), _iso(datetime.time), "a time"),
}
