"""Java's names of classes' members end in an error that gives Python's: `stream.mapValues`, `Consumed.with_`."""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

# Java's static methods that make options and windows; here that is the constructor.
_MAKERS = re.compile(r"(with|as|of|key_serde|value_serde|advance_by|grace|until|before|after)(_|$)")


class JavaNamesMeta(ABCMeta):
    """Names the right spelling where a class has no such attribute."""

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(_message(cls, name, f"type object {cls.__name__!r}"), name=name, obj=cls)


class JavaNames(metaclass=JavaNamesMeta):
    """Names the right spelling where an object has no such attribute.

    >>> class Stream(JavaNames):
    ...     def map_values(self, mapper): ...
    >>> try:
    ...     Stream().mapValues
    ... except AttributeError as error:
    ...     print(error)
    Stream has no mapValues: write map_values
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(_message(type(self), name, f"{type(self).__name__!r} object"), name=name, obj=self)


def _message(owner: type, name: str, shown: str) -> str:
    if not name.startswith("_"):
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().rstrip("_")
        if snake != name and any(snake in vars(base) for base in owner.__mro__):
            return f"{owner.__name__} has no {name}: write {snake}"
        if _MAKERS.match(snake) and (parameters := _parameters(owner)):
            return f"{owner.__name__} has no {name}: write {owner.__name__}({', '.join(f'{one}=…' for one in parameters)})"
    return f"{shown} has no attribute {name!r}"


def _parameters(owner: type) -> list[str]:
    """The parameters of an option's or a window's constructor."""
    if "__dataclass_fields__" not in vars(owner):
        return []
    return [name for name in inspect.signature(owner).parameters if not name.startswith("_")]
