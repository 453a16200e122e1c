"""What comes of a call, as far as it can be seen: the functions that are followed, and what is known of the others."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.repeatable.chance import NOW_UNLESS_TOLD, Cause, Kind, cause_of, cause_of_name, clock_of, is_seeded, unseeded
from penstock.repeatable.proven import cause_of_call, cause_of_data, cause_of_method, is_own, unknown
from penstock.repeatable.values import (
    Bound,
    Instance,
    Known,
    Method,
    NotImported,
    OneOf,
    Shape,
    Value,
    Written,
    attribute,
    is_mutable,
    is_number,
    is_set,
    is_unordered,
    joined,
)
from penstock.repeatable.whose import installed_package, is_library
from penstock.user_code import shown_path

_UNKNOWN = Shape.UNKNOWN
Follow = Callable[["Look", types.FunctionType, Sequence[Value], Mapping[str, Value]], Value]
"""Follows the code of one function, and says what it returns."""

# Code of the user's may call itself, and much of it: this is where looking ends, and what was not seen counts as not repeatable.
_MOST_CALLS, _DEEPEST = 1_000, 40

_ORDERLESS = frozenset({len, sorted, min, max, sum, any, all, bool, isinstance, type, set, frozenset, print})
_KEEPS_ORDER = frozenset({list, tuple, dict, iter, enumerate, zip, map, filter, reversed})
_TAKES_ORDER = frozenset({str, repr, format, bytes, ascii, next, functools.reduce})
_NUMBERS = frozenset({len, int, ord, round, abs, float, bool})
_OF_SETS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_CHANGES = frozenset(
    {
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "add", "discard", "update", "setdefault"),
        *("popitem", "appendleft", "extendleft", "popleft", "rotate", "subtract", "put", "put_nowait", "get_nowait"),
        *("difference_update", "intersection_update", "symmetric_difference_update", "move_to_end", "__setitem__", "__delitem__"),
    }
)
SET_ORDER = "in the order of a set, which differs between processes"
_TOO_MUCH = unknown("more functions than are followed")
HASH = "uses hash(), which differs between processes for all but numbers"


class Finding(NamedTuple):
    """What makes a function give other records when it is run again."""

    function: str
    where: str
    what: str


class Met(Exception):
    """Ends the looking."""

    def __init__(self, cause: Cause) -> None:
        self.cause = cause


class _Frame(NamedTuple):
    name: str
    filename: str
    line: int
    installed: int
    """How many calls deep in code that was installed; 0 in the user's own."""


class Look:
    """One look into a function."""

    def __init__(self, root: Any, follow: Follow, package: str | None) -> None:
        self._follow = follow
        self._package = package
        self._root = str(getattr(root, "__qualname__", type(root).__qualname__))
        self._frames: list[_Frame] = []
        self._last: _Frame | None = None
        self._calls = 0
        self._busy: set[tuple[types.CodeType, tuple[Any, ...]]] = set()
        self._written: set[int] = set()
        self._returned: dict[tuple[types.CodeType, tuple[Any, ...]], Value] = {}

    def finding(self, cause: Cause) -> Finding:
        """Where it was met: the innermost line of the user's own code."""
        frames = self._frames or ([] if self._last is None else [self._last])
        own = [frame for frame in frames if not frame.installed] or frames
        frame = own[-1] if own else _Frame(self._root, "", 0, 0)
        return Finding(frame.name, f"{shown_path(frame.filename)}:{frame.line}" if frame.filename else "", cause.what)

    def meet(self, cause: Cause | None, line: int | None = None) -> None:
        """Something was met; what counts in code that was installed is chance alone."""
        if cause is None:
            return
        if self._frames and self._frames[-1].installed and cause.kind is not Kind.CHANCE:
            return
        if line is not None and self._frames:
            self._frames[-1] = self._frames[-1]._replace(line=line)
        raise Met(cause)

    def at(self, line: int) -> None:
        """The line that is looked at now."""
        self._frames[-1] = self._frames[-1]._replace(line=line)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, called: Value, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """What comes of a call."""
        if isinstance(called, OneOf):
            return joined([self.call(one, given, named) for one in called.values])
        if isinstance(called, Bound):
            self._changed(called.owner, str(getattr(called.function, "__name__", "")))
            return self.call_function(called.function, [called.owner, *given], named)
        if isinstance(called, Written):
            return self._call_written(called, given, named)
        if isinstance(called, Method):
            return self._call_method(called, given)
        if isinstance(called, NotImported):
            self.meet(cause_of_name(called.name, is_called_with=len(given) + len(named)) or unknown(called.name))
        if isinstance(called, Known):
            return self._call_known(called.value, given, named)
        if isinstance(called, Instance):
            method = attribute(called, "__call__")
            return self.call(method, given, named) if not isinstance(method, Known) else _UNKNOWN
        self.meet(unknown("a function that is not known before the record"))
        return _UNKNOWN

    def _call_written(self, called: Written, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """A function inside of another one may call itself too."""
        if id(called.node) in self._written:
            return _UNKNOWN
        if self._calls >= _MOST_CALLS:
            self.meet(_TOO_MUCH)
        self._calls += 1
        self._written.add(id(called.node))
        result: Value = called.scope.inner(called.node, given, named)
        self._written.discard(id(called.node))
        return result

    def _call_known(self, called: Any, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        if is_seeded(called) and not given and not named:
            self.meet(unseeded(called))
        if isinstance(called, types.FunctionType):
            return self.call_function(called, given, named)
        if isinstance(called, types.MethodType):
            return self.call(Known(called.__func__), [Known(called.__self__), *given], named)
        if isinstance(called, functools.partial):
            kept = {name: Known(value) for name, value in called.keywords.items()}
            return self.call(Known(called.func), [*map(Known, called.args), *given], {**kept, **named})
        if isinstance(called, type):
            return self._make(called, given, named)
        if isinstance(called, types.BuiltinFunctionType):
            return self._call_builtin(called, given)
        wrapped = _wrapped(called)
        if wrapped is not None:
            return self.call(Known(wrapped), given, named)
        method = attribute(Known(called), "__call__")
        if isinstance(method, Bound):
            return self.call(method, given, named)
        self.meet(cause_of_call(called))
        return _UNKNOWN

    def _call_builtin(self, called: Any, given: Sequence[Value]) -> Value:
        if called is builtins.hash and not all(map(is_number, given)):
            self.meet(Cause(Kind.ORDER, HASH))
        if called.__module__ == "time" and len(given) <= NOW_UNLESS_TOLD.get(called.__name__, -1):
            self.meet(Cause(Kind.CHANCE, f"uses time.{called.__name__} of now, which is a clock"))
        self.meet(cause_of_call(called))
        return self._in_order(called, given)

    def _in_order(self, called: Any, given: Sequence[Value]) -> Value:
        unordered = any(map(is_unordered, given))
        if called in _NUMBERS:
            return Shape.NUMBER
        if unordered and called in _TAKES_ORDER:
            self.meet(Cause(Kind.ORDER, f"{called.__name__}() takes elements {SET_ORDER}"))
        return Shape.IN_SETS_ORDER if unordered and called in _KEEPS_ORDER else _UNKNOWN

    def _make(self, cls: type, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        if cls in (set, frozenset):
            return Shape.SET
        if cls in _NUMBERS or cls in _KEEPS_ORDER or cls in _TAKES_ORDER or cls in _ORDERLESS:
            return self._in_order(cls, given)
        if cls.__module__ in ("itertools", "collections") and any(map(is_unordered, given)):
            return Shape.IN_SETS_ORDER
        made = Instance(cls)
        if is_seeded(cls):
            return made
        if not is_own(cls, self._package):
            self.meet(cause_of_call(cls))
            return made
        for name in ("__new__", "__init__", "__post_init__"):
            function = _static_function(cls, name)
            if function is not None:
                self.call_function(function, [Known(cls) if name == "__new__" else made, *given], named)
        return made

    def _call_method(self, method: Method, given: Sequence[Value]) -> Value:
        owner, name = method.owner, method.name
        if isinstance(owner, Known | Instance):
            value = owner.value if isinstance(owner, Known) else owner.cls
            kind = value if isinstance(value, type) else type(value)
            if not inspect.ismodule(value) and not is_own(kind, self._package):
                self.meet(cause_of_method(kind, name))
        else:
            self.meet(cause_of_data(name))
        if name == "__hash__" and not is_number(owner):
            self.meet(Cause(Kind.ORDER, HASH))
        self._changed(owner, name)
        if name in ("join", "writelines") and any(map(is_unordered, given)):
            self.meet(Cause(Kind.ORDER, f"{name}() takes elements {SET_ORDER}"))
        if name in ("dumps", "fromkeys") and any(map(is_unordered, given)):
            return Shape.IN_SETS_ORDER
        if is_set(owner):
            if name == "pop":
                self.meet(Cause(Kind.ORDER, "takes any element of a set (pop), and another one in another process"))
            return Shape.SET if name in _OF_SETS else _UNKNOWN
        if owner is Shape.IN_SETS_ORDER:
            if name in ("pop", "popitem", "popleft", "index"):
                self.meet(Cause(Kind.ORDER, f"{name}() takes an element {SET_ORDER}"))
            return Shape.IN_SETS_ORDER if name in ("keys", "values", "items", "copy", "most_common", "elements") else _UNKNOWN
        if name in ("keys", "items") and not given:
            return Shape.KEYS
        return _UNKNOWN

    def _changed(self, owner: Value, name: str) -> None:
        if name in _CHANGES and is_mutable(owner):
            assert isinstance(owner, Known)
            kind = type(owner.value).__name__
            self.meet(Cause(Kind.STATE, f"changes a {kind} that is kept from record to record ({name})"))

    def call_function(self, function: Any, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Follow a function that is written in Python."""
        wrapped = _wrapped(function)
        if not isinstance(function, types.FunctionType):
            if wrapped is None:
                self.meet(cause_of_call(function))
            return _UNKNOWN if wrapped is None else self.call(Known(wrapped), given, named)
        code = function.__code__
        installed = self._installed(function)
        if installed is None:
            if _dumps(function) and any(map(is_unordered, given)):
                self.meet(Cause(Kind.ORDER, f"{function.__module__}.dumps() writes elements {SET_ORDER}"))
            if wrapped is None:
                self.meet(cause_of_call(function))
            return _UNKNOWN if wrapped is None else self.call(Known(wrapped), given, named)
        key = code, tuple(_identity(value) for value in [*given, *named.values()])
        if key in self._returned:
            return self._returned[key]
        if installed:
            self.meet(cause_of_call(function))
        if key in self._busy:
            return _UNKNOWN
        if self._calls >= _MOST_CALLS or len(self._frames) >= _DEEPEST:
            self.meet(_TOO_MUCH)
        self._calls += 1
        self._busy.add(key)
        frame = _Frame(_shown_name(function), code.co_filename, code.co_firstlineno, installed)
        self._frames.append(frame)
        result = self._follow(self, function, given, named)
        self._last = self._frames.pop()
        self._busy.discard(key)
        self._returned[key] = result
        return result

    def use(self, value: Value, line: int | None = None) -> Value:
        """A value is used: it may be chance itself."""
        if isinstance(value, Known):
            self.meet(cause_of(value.value), line)
        elif isinstance(value, Bound):
            self.meet(cause_of(value.function), line)
        elif isinstance(value, Method) and isinstance(value.owner, Known) and isinstance(value.owner.value, type):
            self.meet(clock_of(value.owner.value, value.name), line)
        elif isinstance(value, NotImported):
            self.meet(cause_of_name(value.name), line)
        return value

    def _installed(self, function: types.FunctionType) -> int | None:
        """How many calls deep in code that was installed a call of this function is; None where it is not followed."""
        filename = function.__code__.co_filename
        if is_library(filename):
            return None
        package, deep = installed_package(filename), self._frames[-1].installed if self._frames else 0
        return deep + 1 if deep or package not in (None, self._package) else 0


def _identity(value: Value) -> Any:
    """What makes two calls the same."""
    if isinstance(value, Known):
        return id(value.value)
    return value.cls if isinstance(value, Instance) else value if isinstance(value, Shape) else type(value)


def _wrapped(function: Any) -> Any:
    """What a decorator of the standard library was put around: it says so itself."""
    is_wrapper = isinstance(function, types.FunctionType | functools._lru_cache_wrapper)
    return vars(function).get("__wrapped__") if is_wrapper else None


def _static_function(cls: type, name: str) -> types.FunctionType | None:
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    found = found.__func__ if isinstance(found, staticmethod) else found
    return found if isinstance(found, types.FunctionType) else None


def _dumps(function: types.FunctionType) -> bool:
    return function.__name__ in ("dumps", "dump") and not function.__module__.startswith("penstock")


def _shown_name(function: types.FunctionType) -> str:
    return "a lambda" if function.__name__ == "<lambda>" else function.__qualname__.rpartition("<locals>.")[2]
