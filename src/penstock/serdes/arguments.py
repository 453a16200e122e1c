"""Checks of serde arguments: `Serdes.string` without parentheses is a function and would fail only at the first record."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, TypeGuard, get_origin

from penstock.user_code import misuse

_FACTORIES = ("Serdes.", "WindowedSerdes.")


def is_class(value: Any) -> TypeGuard[type]:
    """Return True for a class, but not for a parametrized one such as `list[int]`, which Python 3.10 also calls a class."""
    return isinstance(value, type) and not isinstance(value, GenericAlias)


def is_serde(value: Any) -> bool:
    """Return True if a value has both halves of a serde."""
    return callable(getattr(value, "serializer", None)) and callable(getattr(value, "deserializer", None))


def is_type(value: Any) -> bool:
    """Return True for the type of keys or values, such as `str`, `Order` or `list[Order]`, but not for a serde class."""
    if is_class(value):
        return not any(hasattr(value, half) for half in ("serializer", "serialize", "deserializer", "deserialize"))
    return get_origin(value) is not None


def refuse_factory(value: Any, function: str | None = None) -> None:
    """Raise an error for a function of `Serdes` that was passed instead of its result."""
    name = getattr(value, "__qualname__", "")
    if name.startswith(_FACTORIES) and str(getattr(value, "__module__", "")).startswith("penstock."):
        raise misuse(f"{name} is the function that makes the serde: write {name}()", function)
