"""Conversions of Python types to JSON and back. A type is compiled once to two functions.

Dataclasses and TypedDicts are objects with their fields. Datetimes, dates and times are ISO 8601. Decimals and UUIDs are
text, which keeps all digits. An enum is its value, and bytes are base64. Values are checked in both directions, so that
everything that is written can be read. pydantic's and msgspec's types use their own conversions. The type decides, not the
installed packages, so an object has the same bytes everywhere.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from penstock.errors import ConfigError
from penstock.serdes.arguments import is_class
from penstock.serdes.codecs import encode_json
from penstock.serdes.json_libraries import library_of
from penstock.serdes.json_scalars import KEY_TEXTS, SIMPLE, JsonType, KeyText, MismatchError, mismatch, short

SUPPORTED: Final = (
    "str, int, float, bool, None, bytes, datetime, date, time, Decimal, UUID, enums, Literal, Any, Optional and unions of types "
    "that JSON tells apart, list, tuple, set, frozenset, dict, dataclasses, TypedDicts, pydantic's models and msgspec's Structs"
)


def json_type(annotation: Any, what: str) -> JsonType:
    """Return the conversions of a type. `what` begins the message of the ConfigError for an unsupported part."""
    return _Compiler(what).compile(annotation, "")


class _Compiler:
    def __init__(self, what: str) -> None:
        self._what = what
        self._known: dict[Any, list[JsonType]] = {}

    def compile(self, annotation: Any, path: str) -> JsonType:
        if isinstance(annotation, typing.NewType):
            return self.compile(annotation.__supertype__, path)
        simple = SIMPLE.get(annotation) if isinstance(annotation, type | type(None)) or annotation is Any else None
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
        if is_class(annotation):
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
        """Compile a class that may contain itself. Inner conversions look up the finished result when they are called."""
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
                raise mismatch(cls.__qualname__, value)
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
            # Postponed annotations hide these markers from the class.
            while (mark := _mark_of(hint)) is not None:
                if mark != "ReadOnly":
                    (needed.add if mark == "Required" else needed.discard)(name)
                (hint,) = typing.get_args(hint)
            members[name] = self.compile(hint, f"{path}.{name}")
        required, names = frozenset(needed), frozenset(hints)
        readers = {name: (member.plain, member.read) for name, member in members.items()}

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise mismatch(f"a {cls.__qualname__}", value)
            if missing := required - value.keys():
                raise MismatchError(f"the key {min(missing)!r} of {cls.__qualname__} is missing")
            found = {}
            # In the class's order, not the dict's: equal keys need equal bytes.
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
                raise mismatch(cls.__qualname__, value)
            return value.value

        def read(data: Any) -> Any:
            found = values.get(data) if type(data) in kinds else None
            if found is None:
                raise MismatchError(f"{short(data)} is none of {cls.__qualname__}: {', '.join(map(repr, values))}")
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
                raise MismatchError(f"{short(value)} is none of {', '.join(map(repr, values))}")
            return value

        return JsonType(same, same, kinds, kinds)

    def _union(self, members: list[JsonType], annotation: Any, path: str) -> JsonType:
        by_class: dict[type, Callable[[Any], Any]] = {}
        by_kind: dict[type, Callable[[Any], Any]] = {}
        # A float also reads whole numbers, unless another member does.
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
                raise mismatch(expected, value)
            return member(value)

        def read(data: Any) -> Any:
            member = by_kind.get(type(data), by_kind.get(object))
            if member is None:
                raise mismatch(expected, data)
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
                raise mismatch(f"a {make.__name__}", value)
            found = [item if type(item) is kept else _entry(write_entry, item, at) for at, item in enumerate(value)]
            # A set's order differs between processes, but equal sets need equal bytes.
            return sorted(found, key=encode_json) if unordered else found

        def read(data: Any) -> Any:
            if type(data) is not list:
                raise mismatch("a list", data)
            return make(item if type(item) is kept else _entry(read_entry, item, at) for at, item in enumerate(data))

        return JsonType(write, read, frozenset({list}), frozenset({make}))

    def _fixed_tuple(self, members: list[JsonType]) -> JsonType:
        def write(value: Any) -> list[Any]:
            if not isinstance(value, tuple) or len(value) != len(members):
                raise mismatch(f"a tuple of {len(members)}", value)
            return [_entry(member.write, item, at) for at, (member, item) in enumerate(zip(members, value))]

        def read(data: Any) -> tuple[Any, ...]:
            if type(data) is not list or len(data) != len(members):
                raise mismatch(f"a list of {len(members)}", data)
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
                raise mismatch("a dict", value)
            found = {}
            for key, item in value.items():
                if type(key) is not cls and not (cls is not bool and isinstance(key, cls) and not isinstance(key, bool)):
                    raise MismatchError(f"the key {short(key)} of a dict is no {cls.__name__}")
                found[to_text(key)] = item if type(item) is kept else _entry(write_entry, item, key)
            return found

        def read(data: Any) -> dict[Any, Any]:
            if type(data) is not dict:
                raise mismatch("an object", data)
            found = {}
            for key, item in data.items():
                try:
                    read_key = from_text(key)
                except (ValueError, KeyError, ArithmeticError) as exc:
                    raise MismatchError(f"the key {short(key)} of an object is no {cls.__name__}") from exc
                found[read_key] = item if type(item) is kept else _entry(read_entry, item, key)
            return found

        return JsonType(write, read, _OBJECT, frozenset({dict}))

    def _key(self, key_type: Any, path: str) -> KeyText:
        found = KEY_TEXTS.get(key_type) if is_class(key_type) else None
        if found is not None:
            return found
        if is_class(key_type) and issubclass(key_type, enum.Enum):
            by_text = {str(member.value): member for member in key_type}
            return KeyText(key_type, lambda member: str(member.value), by_text.__getitem__)
        if key_type is Any:
            return KEY_TEXTS[str]
        raise ConfigError(
            f"{self._what}: {_at(path)}{_named(key_type)} cannot be the key of a dict in JSON, whose keys are text; "
            f"supported are enums, {', '.join(sorted(one.__name__ for one in KEY_TEXTS))}"
        )

    def _unsupported(self, annotation: Any, path: str) -> JsonType:
        where = f"the field {path.removeprefix('.')} is a" if path else "it is a"
        raise ConfigError(
            f"{self._what}: {where} {_named(annotation)}, which has no form in JSON here; supported are {SUPPORTED}. "
            "Give it another type, or write a serde of your own"
        )


# Shared by containers and classes


def is_typed_dict(cls: Any) -> bool:
    """Return True for a TypedDict of `typing` or `typing_extensions`."""
    return is_class(cls) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


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
        raise mismatch(f"an object with the fields of {cls.__qualname__}", data)
    found = {}
    for name, item in data.items():
        if name not in names:  # an unknown field, written by a later version
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
            raise mismatch(cls.__qualname__, value)
        return write(value)

    return write_exactly


def _reading(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_checked(data: Any) -> Any:
        try:
            return read(data)
        except ValueError as exc:
            raise MismatchError(str(exc)) from exc

    return read_checked


def _named(annotation: Any) -> str:
    return annotation.__qualname__ if is_class(annotation) else str(annotation)


def _at(path: str) -> str:
    return f"at the field {path.removeprefix('.')}: " if path else ""


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
