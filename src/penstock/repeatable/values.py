"""What is known of a value while its code is followed, without running any of it."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class Shape(enum.Enum):
    """What is known of a value that is made anew for each record."""

    UNKNOWN = enum.auto()
    NUMBER = enum.auto()
    SET = enum.auto()
    IN_SETS_ORDER = enum.auto()
    """A list, or what else has an order, that took it from a set."""
    KEYS = enum.auto()
    """The keys or items of a mapping: ordered, but a set is what comes of them and another."""


@dataclass(frozen=True, eq=False)
class Known:
    """An object that was there before the records: a global, what a closure keeps, a default, an attribute of those."""

    value: Any


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class that was made for this record."""

    cls: type


@dataclass(frozen=True, eq=False)
class Bound:
    """A method written in Python, of an object that is known or was made for this record."""

    function: Any
    owner: Value


@dataclass(frozen=True, eq=False)
class Method:
    """Any other method: of a value that is not known, or one that is not written in Python."""

    owner: Value
    name: str


@dataclass(frozen=True, eq=False)
class NotImported:
    """A module, or what is in one, that is not imported in this process."""

    name: str


@dataclass(frozen=True, eq=False)
class Written:
    """A function that is written inside of another one; `scope` is where."""

    node: Any
    scope: Any = field(repr=False)


@dataclass(frozen=True, eq=False)
class OneOf:
    """One of several values: what a list or a mapping of them holds."""

    values: tuple[Value, ...]


Value = Shape | Known | Instance | Bound | Method | NotImported | Written | OneOf

_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_MUTABLE = (list, dict, set, bytearray)


def joined(values: Iterable[Value]) -> Value:
    """What is known where a value is one of these."""
    found: Value | None = None
    for value in values:
        if found is None or found is value or is_unordered(value):
            found = value
        elif not is_unordered(found):
            found = Shape.UNKNOWN
    return Shape.UNKNOWN if found is None else found


def is_unordered(value: Value) -> bool:
    """Whether going through it meets its elements in another order in another process; numbers are where they are in any."""
    if isinstance(value, Known):
        return isinstance(value.value, set | frozenset) and not all(type(one) in (int, bool) for one in value.value)
    return value in (Shape.SET, Shape.IN_SETS_ORDER)


def is_set(value: Value) -> bool:
    """Whether it is a set, in no order of its own."""
    return value is Shape.SET or (isinstance(value, Known) and isinstance(value.value, set | frozenset))


def is_number(value: Value) -> bool:
    """Whether it is a number, whose hash is the same everywhere."""
    return value is Shape.NUMBER or (isinstance(value, Known) and isinstance(value.value, int | float))


def is_mutable(value: Value) -> bool:
    """Whether it is there before the records and can be changed by its methods."""
    if not isinstance(value, Known):
        return False
    return isinstance(value.value, _MUTABLE) or type(value.value).__module__ in ("collections", "array", "queue", "_queue")


def elements(value: Value) -> Value:
    """What going through a value, or an index of it, gives: functions among them may be called."""
    if isinstance(value, OneOf):
        return value
    if not isinstance(value, Known) or not isinstance(value.value, list | tuple | dict):
        return Shape.UNKNOWN
    held = list(value.value.values()) if isinstance(value.value, dict) else list(value.value)
    return OneOf(tuple(Known(one) for one in held[:50] if callable(one))) if any(map(callable, held[:50])) else Shape.UNKNOWN


def attribute(owner: Value, name: str) -> Value:
    """What an attribute is, as far as it can be told without running anything; properties are bound to be followed."""
    if isinstance(owner, NotImported):
        return NotImported(f"{owner.name}.{name}")
    if isinstance(owner, Instance):
        return _of_class(owner.cls, name, owner)
    if not isinstance(owner, Known):
        return Method(owner, name)
    if inspect.ismodule(owner.value):
        whole = f"{owner.value.__name__}.{name}"
        found = vars(owner.value).get(name, sys.modules.get(whole))
        return NotImported(whole) if found is None else Known(found)  # some modules bring what they have when it is asked for
    if isinstance(owner.value, type):
        return _of_class(owner.value, name, owner)
    try:
        kept = vars(owner.value)
    except TypeError:
        kept = {}
    if name in kept:
        return Known(kept[name])
    return _of_class(type(owner.value), name, owner)


def _of_class(cls: type, name: str, owner: Value) -> Value:
    found = inspect.getattr_static(cls, name, None)
    is_class = isinstance(owner, Known) and owner.value is cls
    if isinstance(found, staticmethod):
        return Known(found.__func__)
    if isinstance(found, classmethod):
        return Bound(found.__func__, Known(cls))
    if isinstance(found, types.FunctionType):
        return Known(found) if is_class else Bound(found, owner)
    if isinstance(found, property | functools.cached_property):
        getter = found.fget if isinstance(found, property) else found.func
        return Shape.UNKNOWN if is_class or getter is None else Bound(getter, owner)
    if isinstance(found, _SLOTS) and isinstance(owner, Known) and not is_class:
        try:
            return Known(found.__get__(owner.value))
        except (AttributeError, TypeError):  # not set, or one that only classes have
            return Shape.UNKNOWN
    if found is None or isinstance(
        found, types.MethodDescriptorType | types.ClassMethodDescriptorType | types.WrapperDescriptorType
    ):
        return Method(owner, name)
    return Known(found)


def is_property(owner: Value, name: str) -> bool:
    """Whether reading an attribute runs a function."""
    cls = owner.cls if isinstance(owner, Instance) else type(owner.value) if isinstance(owner, Known) else None
    return cls is not None and isinstance(inspect.getattr_static(cls, name, None), property | functools.cached_property)


def constant(node: ast.Constant) -> Value:
    """What a constant in the code is."""
    if isinstance(node.value, int | float):
        return Shape.NUMBER
    return Known(node.value) if isinstance(node.value, str | bytes) else Shape.UNKNOWN
