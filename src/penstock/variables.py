"""The variables that the user's functions see besides their arguments: what closures hold, and globals they name."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

_DEPTH = 8


class Variable(NamedTuple):
    """A variable of a function that is not its own; `assigned`: the function gives it another value itself."""

    name: str
    function: str
    value: Any
    assigned: bool = False


def functions_in(value: Any) -> Iterator[types.FunctionType]:
    """The functions of the user's that an operator, a supplier or a class leads to; each once."""
    return _functions(value, set(), 0)


def _functions(value: Any, seen: set[int], depth: int) -> Iterator[types.FunctionType]:
    if depth > _DEPTH or id(value) in seen or isinstance(value, (str, bytes, int, float, types.ModuleType)):
        return
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        if not _is_ours(value.__module__):
            yield value
        inner: Iterable[Any] = [*(variable.value for variable in variables_of(value) if callable(variable.value))]
    elif isinstance(value, types.MethodType):
        inner = (value.__func__, value.__self__)
    elif isinstance(value, partial):
        inner = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, type):
        # Copies: the caller may pickle an object of the class between two of its functions, and pickle writes to the class.
        inner = () if _is_ours(value.__module__) or value.__module__ == "builtins" else tuple(vars(value).values())
    elif isinstance(value, (list, tuple)):
        inner = tuple(value)
    elif isinstance(value, (staticmethod, classmethod)):
        inner = (value.__func__,)
    else:
        inner = _parts(value)
    for part in inner:
        if callable(part) or isinstance(part, (list, tuple, staticmethod, classmethod)) or is_dataclass(part) or depth == 0:
            yield from _functions(part, seen, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value)]
    parts = list(getattr(value, "__dict__", {}).values())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        parts += [getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots)]
    return [*parts, type(value)]


def variables_of(function: types.FunctionType) -> Iterator[Variable]:
    """What a function finds outside of itself: in its closure, and under the names of globals that its code has."""
    name = function.__qualname__
    assigned = frozenset(_assigned(function.__code__))
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield Variable(free, name, cell.cell_contents, free in assigned)
        except ValueError:
            continue  # not assigned yet
    for used in _names(function.__code__):
        if used in function.__globals__ and not isinstance(function.__globals__[used], types.ModuleType):
            yield Variable(used, name, function.__globals__[used], used in assigned)


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names of a function and of those that it defines."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _assigned(code: types.CodeType) -> Iterator[str]:
    return (str(step.argval) for step in dis.get_instructions(code) if step.opname in ("STORE_DEREF", "STORE_GLOBAL"))


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == "penstock"
