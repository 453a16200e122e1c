"""Python types as JSON and back: a type is looked at once, and gives two functions that know what to do with its values.

Dataclasses and TypedDicts are objects of their fields; datetimes, dates and times are ISO 8601; Decimals and UUIDs are text,
which keeps all digits; an enum is its value; bytes are base64. Values are checked against their types both ways, so that what is
written can be read. Types of pydantic and msgspec know all this themselves, and are left to them: the type decides, not what is
installed, so that an object has the same bytes everywhere.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import ConfigError
from penstock.serdes.codecs import encode_json

SUPPORTED: Final = (
    "str, int, float, bool, None, bytes, datetime, date, time, Decimal, UUID, enums, Literal, Any, Optional and unions of types "
    "that JSON tells apart, list, tuple, set, frozenset, dict, dataclasses, TypedDicts, pydantic's models and msgspec's Structs"
)


class MismatchError(ValueError):
    """A value that is not what its type says; `path` is built on the way out, from the innermost field."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where}: {self.args[0]}" if where else str(self.args[0])


class JsonType(NamedTuple):
    """What a type does: `write` makes of a value what JSON holds, `read` the other way round; both raise MismatchError.

    `kinds` are the Python types of what JSON holds for it, `classes` those of its values: unions are told apart by them. A value
    of exactly the type `plain` is the same in JSON, so nobody has to call `write` and `read` for it.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    kinds: frozenset[type]
    classes: frozenset[type]
    plain: type | None = None


class _Text(NamedTuple):
    """A type that is text in JSON, and so can be a key."""

    cls: type
    to_text: Callable[[Any], str]
    from_text: Callable[[str], Any]


def json_type(annotation: Any, what: str) -> JsonType:
    """How values of a type become JSON and back; `what` begins the message of the ConfigError where a part is not supported."""
    return _Compiler(what).compile(annotation, "")


class _Compiler:
    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[Any, list[JsonType]] = {}

    def compile(self, annotation: Any, path: str) -> JsonType:
        if isinstance(annotation, typing.NewType):
            return self.compile(annotation.__supertype__, path)
        simple = _SIMPLE.get(annotation) if isinstance(annotation, type | type(None)) or annotation is Any else None
        if simple is not None:
            return simple
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            return self.compile(annotation.__origin__, path)
        if origin in (typing.Union, types.UnionType):
            return self._union([self.compile(one, path) for one in typing.get_args(annotation)], annotation, path)
        if origin is typing.Literal:
            return self._literal(typing.get_args(annotation), path)
        if (origin is not None and origin in _CONTAINERS) or annotation in _CONTAINERS:
            return self._container(origin or annotation, typing.get_args(annotation), path)
        if isinstance(annotation, type):
            return self._class(annotation, path)
        return self._unsupported(annotation, path)

    def _class(self, cls: type, path: str) -> JsonType:
        if issubclass(cls, enum.Enum):
            return self._enum(cls, path)
        library = library_of(cls)
        if library is not None:
            to_plain, from_plain = library.plain(cls)
            return JsonType(_exactly(cls, to_plain), _reading(from_plain), _OBJECT, frozenset({cls}))
        if dataclasses.is_dataclass(cls):
            return self._recursive(cls, path, self._dataclass)
        if is_typed_dict(cls):
            return self._recursive(cls, path, self._typed_dict)
        return self._unsupported(cls, path)

    def _recursive(self, cls: type, path: str, compile_class: Callable[[type, str], JsonType]) -> JsonType:
        """A class may hold itself: whoever meets it again calls what is not there yet."""
        found = self._known.get(cls)
        if found is None:
            found = self._known[cls] = []
            found.append(compile_class(cls, path))
        if found:
            return found[0]
        classes = frozenset({dict if is_typed_dict(cls) else cls})
        return JsonType(lambda value: found[0].write(value), lambda data: found[0].read(data), _OBJECT, classes)

    def _hints(self, cls: type, path: str) -> dict[str, Any]:
        try:
            return typing.get_type_hints(cls, include_extras=True)
        except Exception as exc:
            at = f" (at {path})" if path else ""
            raise ConfigError(
                f"{self._what}: the annotations of {cls.__qualname__}{at} cannot be read: {exc}; define what they name in the "
                "module of the class"
            ) from exc

    def _dataclass(self, cls: type, path: str) -> JsonType:
        if getattr(cls, "__parameters__", ()):
            return self._unsupported(cls, path)
        hints = self._hints(cls, path)
        fields = [field for field in dataclasses.fields(cls) if field.init]
        members = [(field.name, self.compile(hints[field.name], f"{path}.{field.name}")) for field in fields]
        names = frozenset(field.name for field in fields)
        needed = frozenset(
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        plain = [(name, member.plain, member.write) for name, member in members]
        readers = {name: (member.plain, member.read) for name, member in members}

        def write(value: Any) -> dict[str, Any]:
            if type(value) is not cls:
                raise _mismatch(cls.__qualname__, value)
            found = {}
            for name, kept, write_member in plain:
                item = getattr(value, name)
                if type(item) is not kept:
                    try:
                        item = write_member(item)
                    except MismatchError as exc:
                        exc.path.append(f".{name}")
                        raise
                found[name] = item
            return found

        def read(data: Any) -> Any:
            found = _read_members(cls, data, readers, names, needed)
            try:
                return cls(**found)
            except (TypeError, ValueError) as exc:
                raise MismatchError(f"{cls.__qualname__} refuses it: {exc}") from exc

        return JsonType(write, read, _OBJECT, frozenset({cls}))

    def _typed_dict(self, cls: Any, path: str) -> JsonType:
        hints = self._hints(cls, path)
        needed = set(cls.__required_keys__)
        members = {}
        for name, hint in hints.items():
            # With postponed annotations the class itself does not see these marks.
            while (mark := _mark_of(hint)) is not None:
                if mark != "ReadOnly":
                    (needed.add if mark == "Required" else needed.discard)(name)
                (hint,) = typing.get_args(hint)
            members[name] = self.compile(hint, f"{path}.{name}")
        required, names = frozenset(needed), frozenset(hints)
        readers = {name: (member.plain, member.read) for name, member in members.items()}

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise _mismatch(f"a {cls.__qualname__}", value)
            if missing := required - value.keys():
                raise MismatchError(f"the key {min(missing)!r} of {cls.__qualname__} is missing")
            found = {}
            # In the order of the class, not in that of the dict: equal keys need equal bytes.
            for name, member in members.items():
                if name in value:
                    item = value[name]
                    try:
                        found[name] = item if type(item) is member.plain else member.write(item)
                    except MismatchError as exc:
                        exc.path.append(f".{name}")
                        raise
            if len(found) < len(value):
                raise MismatchError(f"{cls.__qualname__} has no key {next(name for name in value if name not in found)!r}")
            return found

        def read(data: Any) -> dict[str, Any]:
            return _read_members(cls, data, readers, names, required)

        return JsonType(write, read, _OBJECT, frozenset({dict}))

    def _enum(self, cls: type[enum.Enum], path: str) -> JsonType:
        values = {member.value: member for member in cls}
        if not _PLAIN.issuperset(map(type, values)):
            raise ConfigError(f"{self._what}: {_at(path)}the values of the enum {cls.__qualname__} are not all text or numbers")

        def write(value: Any) -> Any:
            if not isinstance(value, cls):
                raise _mismatch(cls.__qualname__, value)
            return value.value

        def read(data: Any) -> Any:
            found = values.get(data) if type(data) in kinds else None
            if found is None:
                raise MismatchError(f"{_short(data)} is none of {cls.__qualname__}: {', '.join(map(repr, values))}")
            return found

        kinds = frozenset(map(type, values))
        return JsonType(write, read, kinds, frozenset({cls}))

    def _literal(self, values: tuple[Any, ...], path: str) -> JsonType:
        allowed = {(type(value), value) for value in values}
        kinds = frozenset(map(type, values))
        if not kinds <= _PLAIN | {type(None)}:
            return self._unsupported(f"Literal{list(values)}", path)

        def same(value: Any) -> Any:
            if type(value) not in kinds or (type(value), value) not in allowed:
                raise MismatchError(f"{_short(value)} is none of {', '.join(map(repr, values))}")
            return value

        return JsonType(same, same, kinds, kinds)

    def _union(self, members: list[JsonType], annotation: Any, path: str) -> JsonType:
        by_class: dict[type, Callable[[Any], Any]] = {}
        by_kind: dict[type, Callable[[Any], Any]] = {}
        # A float reads whole numbers too, unless somebody else does.
        for member in sorted(members, key=lambda one: float in one.kinds):
            for cls in member.classes:
                by_class.setdefault(cls, member.write)
            for kind in member.kinds:
                if kind in by_kind and not (kind is int and float in member.kinds):
                    raise ConfigError(
                        f"{self._what}: {_at(path)}the members of {_named(annotation)} look alike in JSON, so which is meant "
                        "cannot be told when it is read; give the field one of them, or use a tagged union of pydantic or msgspec"
                    )
                by_kind.setdefault(kind, member.read)
        expected = _named(annotation)

        def write(value: Any) -> Any:
            member = by_class.get(type(value), by_class.get(object))
            if member is None:
                raise _mismatch(expected, value)
            return member(value)

        def read(data: Any) -> Any:
            member = by_kind.get(type(data), by_kind.get(object))
            if member is None:
                raise _mismatch(expected, data)
            return member(data)

        return JsonType(write, read, frozenset(by_kind), frozenset(by_class))

    def _container(self, origin: type, arguments: tuple[Any, ...], path: str) -> JsonType:
        if origin in (dict, Mapping):
            return self._dict(arguments, path)
        if origin is tuple and arguments and Ellipsis not in arguments:
            return self._fixed_tuple([self.compile(one, f"{path}[{at}]") for at, one in enumerate(arguments)])
        entry = self.compile(arguments[0] if arguments else Any, f"{path}[]")
        make = _CONTAINERS[origin]
        kept, write_entry, read_entry = entry.plain, entry.write, entry.read
        unordered = make in (set, frozenset)

        def write(value: Any) -> list[Any]:
            if not isinstance(value, make):
                raise _mismatch(f"a {make.__name__}", value)
            found = [item if type(item) is kept else _entry(write_entry, item, at) for at, item in enumerate(value)]
            # The order of a set is another in each process; the same set has to have the same bytes.
            return sorted(found, key=encode_json) if unordered else found

        def read(data: Any) -> Any:
            if type(data) is not list:
                raise _mismatch("a list", data)
            return make(item if type(item) is kept else _entry(read_entry, item, at) for at, item in enumerate(data))

        return JsonType(write, read, frozenset({list}), frozenset({make}))

    def _fixed_tuple(self, members: list[JsonType]) -> JsonType:
        def write(value: Any) -> list[Any]:
            if not isinstance(value, tuple) or len(value) != len(members):
                raise _mismatch(f"a tuple of {len(members)}", value)
            return [_entry(member.write, item, at) for at, (member, item) in enumerate(zip(members, value))]

        def read(data: Any) -> tuple[Any, ...]:
            if type(data) is not list or len(data) != len(members):
                raise _mismatch(f"a list of {len(members)}", data)
            return tuple(_entry(member.read, item, at) for at, (member, item) in enumerate(zip(members, data)))

        return JsonType(write, read, frozenset({list}), frozenset({tuple}))

    def _dict(self, arguments: tuple[Any, ...], path: str) -> JsonType:
        key_type, entry_type = arguments or (str, Any)
        text = self._key(key_type, path)
        entry = self.compile(entry_type, f"{path}[]")
        kept, write_entry, read_entry = entry.plain, entry.write, entry.read
        cls, to_text, from_text = text

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise _mismatch("a dict", value)
            found = {}
            for key, item in value.items():
                if type(key) is not cls and not (cls is not bool and isinstance(key, cls) and not isinstance(key, bool)):
                    raise MismatchError(f"the key {_short(key)} of a dict is no {cls.__name__}")
                found[to_text(key)] = item if type(item) is kept else _entry(write_entry, item, key)
            return found

        def read(data: Any) -> dict[Any, Any]:
            if type(data) is not dict:
                raise _mismatch("an object", data)
            found = {}
            for key, item in data.items():
                try:
                    read_key = from_text(key)
                except (ValueError, KeyError, ArithmeticError) as exc:
                    raise MismatchError(f"the key {_short(key)} of an object is no {cls.__name__}") from exc
                found[read_key] = item if type(item) is kept else _entry(read_entry, item, key)
            return found

        return JsonType(write, read, _OBJECT, frozenset({dict}))

    def _key(self, key_type: Any, path: str) -> _Text:
        found = _TEXTS.get(key_type) if isinstance(key_type, type) else None
        if found is not None:
            return found
        if isinstance(key_type, type) and issubclass(key_type, enum.Enum):
            by_text = {str(member.value): member for member in key_type}
            return _Text(key_type, lambda member: str(member.value), by_text.__getitem__)
        if key_type is Any:
            return _TEXTS[str]
        raise ConfigError(
            f"{self._what}: {_at(path)}{_named(key_type)} cannot be the key of a dict in JSON, whose keys are text; "
            f"supported are enums, {', '.join(sorted(one.__name__ for one in _TEXTS))}"
        )

    def _unsupported(self, annotation: Any, path: str) -> JsonType:
        where = f"the field {path.removeprefix('.')} is a" if path else "it is a"
        raise ConfigError(
            f"{self._what}: {where} {_named(annotation)}, which has no form in JSON here; supported are {SUPPORTED}. "
            "Give it another type, or write a serde of your own"
        )


# What other libraries' types do


class Library(NamedTuple):
    """How another library writes and reads its own types, as JSON's bytes and as what JSON holds."""

    name: str
    plain: Callable[[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]]
    dumps: Callable[[Any], Callable[[Any], bytes]]
    loads: Callable[[Any], Callable[[bytes], Any]]


def library_of(cls: type) -> Library | None:
    """The library that knows how a class becomes JSON: pydantic or msgspec; None where it is neither's."""
    if hasattr(cls, "__pydantic_validator__") and hasattr(cls, "__pydantic_serializer__"):
        return PYDANTIC
    if hasattr(cls, "__struct_config__") and hasattr(cls, "__struct_fields__"):
        return MSGSPEC
    return None


def _pydantic_plain(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    serializer, validator = cls.__pydantic_serializer__, cls.__pydantic_validator__
    return (
        lambda value: serializer.to_python(value, mode="json", by_alias=True),
        # From text again: what pydantic reads from JSON (dates, strict types) it does not all read from Python's values.
        lambda data: validator.validate_json(encode_json(data)),
    )


def _pydantic_dumps(cls: Any) -> Callable[[Any], bytes]:
    serializer = cls.__pydantic_serializer__

    def dumps(value: Any) -> bytes:
        data: bytes = serializer.to_json(value, by_alias=True)
        if b"null" in data:  # NaN too is written as null, which is not what was meant
            encode_json(serializer.to_python(value, mode="json", by_alias=True))
        return data

    return dumps


def _msgspec_plain(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    import msgspec

    return msgspec.to_builtins, lambda data: msgspec.convert(data, cls)


def _msgspec_dumps(cls: Any) -> Callable[[Any], bytes]:
    import msgspec

    encode = msgspec.json.Encoder().encode

    def dumps(value: Any) -> bytes:
        data: bytes = encode(value)
        if b"null" in data:
            encode_json(msgspec.to_builtins(value, str_keys=True))
        return data

    return dumps


def _msgspec_loads(cls: Any) -> Callable[[bytes], Any]:
    import msgspec

    decode: Callable[[bytes], Any] = msgspec.json.Decoder(cls).decode
    return decode


PYDANTIC: Final = Library("pydantic", _pydantic_plain, _pydantic_dumps, lambda cls: cls.__pydantic_validator__.validate_json)
MSGSPEC: Final = Library("msgspec", _msgspec_plain, _msgspec_dumps, _msgspec_loads)


# The simple types


def is_typed_dict(cls: Any) -> bool:
    """Whether a class is a TypedDict, of `typing` or of `typing_extensions`."""
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def _mark_of(hint: Any) -> str | None:
    name = getattr(typing.get_origin(hint), "_name", None)
    return name if name in ("Required", "NotRequired", "ReadOnly") else None


def _read_members(
    cls: Any,
    data: Any,
    readers: Mapping[str, tuple[type | None, Callable[[Any], Any]]],
    names: frozenset[str],
    needed: frozenset[str],
) -> dict[str, Any]:
    if type(data) is not dict:
        raise _mismatch(f"an object with the fields of {cls.__qualname__}", data)
    found = {}
    for name, item in data.items():
        if name not in names:  # written by a later version: it has no place here
            continue
        kept, read = readers[name]
        if type(item) is not kept:
            try:
                item = read(item)
            except MismatchError as exc:
                exc.path.append(f".{name}")
                raise
        found[name] = item
    if not needed <= found.keys():
        raise MismatchError(f"the field {min(needed - found.keys())!r} of {cls.__qualname__} is missing")
    return found


def _entry(function: Callable[[Any], Any], item: Any, at: Any) -> Any:
    try:
        return function(item)
    except MismatchError as exc:
        exc.path.append(f"[{at!r}]")
        raise


def _exactly(cls: type, write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def write_exactly(value: Any) -> Any:
        if type(value) is not cls:
            raise _mismatch(cls.__qualname__, value)
        return write(value)

    return write_exactly


def _reading(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_checked(data: Any) -> Any:
        try:
            return read(data)
        except ValueError as exc:
            raise MismatchError(str(exc)) from exc

    return read_checked


def _mismatch(expected: str, value: Any) -> MismatchError:
    return MismatchError(f"expected {expected}, got {_short(value)} ({type(value).__name__})")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _named(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _at(path: str) -> str:
    return f"at the field {path.removeprefix('.')}: " if path else ""


def _same(cls: type, expected: str) -> JsonType:
    def same(value: Any) -> Any:
        if not isinstance(value, cls) or (cls is int and isinstance(value, bool)):
            raise _mismatch(expected, value)
        return value

    return JsonType(same, same, frozenset({cls}), frozenset({cls}), cls)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch("a number", value)
    return float(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise _mismatch("None", value)


def _anything(value: Any) -> Any:
    try:
        encode_json(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise MismatchError(str(exc)) from exc
    return value


def _text(cls: type, to_text: Callable[[Any], str], from_text: Callable[[str], Any], expected: str) -> JsonType:
    def write(value: Any) -> str:
        # A datetime is a date, but is not written as one.
        if not isinstance(value, cls) or (cls is datetime.date and isinstance(value, datetime.datetime)):
            raise _mismatch(expected, value)
        return to_text(value)

    def read(data: Any) -> Any:
        if type(data) is not str:
            raise _mismatch(f"{expected} as text", data)
        try:
            return from_text(data)
        except (ValueError, ArithmeticError) as exc:
            raise MismatchError(f"{_short(data)} is not {expected}") from exc

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
    # Others write numbers; a float's digits are those of its text.
    return _DECIMAL.read(repr(data) if type(data) in (int, float) else data)


def _iso(cls: Any) -> Callable[[str], Any]:
    if sys.version_info >= (3, 11):
        parse: Callable[[str], Any] = cls.fromisoformat
        return parse
    # Before 3.11 Python does not read the Z that others write for UTC.
    return lambda text: cls.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _whole(text: str) -> int:
    number = int(text)
    if str(number) != text:
        raise ValueError(text)
    return number


_OBJECT: Final = frozenset({dict})
_PLAIN: Final = frozenset({str, int})
_CONTAINERS: Final[Mapping[Any, Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    dict: dict,
    Mapping: dict,
    Sequence: list,
}
_TEXTS: Final[Mapping[type, _Text]] = {
    str: _Text(str, str, str),
    int: _Text(int, lambda number: int.__repr__(number), _whole),
    float: _Text(float, lambda number: float.__repr__(number), float),
    bool: _Text(bool, lambda flag: "true" if flag else "false", {"true": True, "false": False}.__getitem__),
    uuid.UUID: _Text(uuid.UUID, str, uuid.UUID),
    decimal.Decimal: _Text(decimal.Decimal, _decimal_text, _decimal),
    datetime.date: _Text(datetime.date, lambda date: date.isoformat(), _iso(datetime.date)),
    datetime.datetime: _Text(datetime.datetime, lambda time: time.isoformat(), _iso(datetime.datetime)),
}
_SIMPLE: Final[Mapping[Any, JsonType]] = {
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
