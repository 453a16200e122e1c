"""Serdes as arguments: `Serdes.string` in place of `Serdes.string()` is a function, and would only fail at the first record."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, TypeGuard, get_origin

from penstock.user_code import misuse

_FACTORIES = ("Serdes.", "WindowedSerdes.")


def is_class(value: Any) -> TypeGuard[type]:
    """Whether a value is a class, and not one with parameters such as `list[int]`, which is one to Python 3.10."""
    return isinstance(value, type) and not isinstance(value, GenericAlias)


def is_serde(value: Any) -> bool:
    """Whether a value has both halves of a serde."""
    return callable(getattr(value, "serializer", None)) and callable(getattr(value, "deserializer", None))


def is_type(value: Any) -> bool:
    """Whether a value is the type of keys or values, such as `str`, `Order` or `list[Order]`, and not the class of a serde."""
    if is_class(value):
        return not any(hasattr(value, half) for half in ("serializer", "serialize", "deserializer", "deserialize"))
    return get_origin(value) is not None


def refuse_factory(value: Any, function: str | None = None) -> None:
    """Refuse a function of `Serdes` that makes a serde, where a serde is wanted."""
    name = getattr(value, "__qualname__", "")
    if name.startswith(_FACTORIES) and str(getattr(value, "__module__", "")).startswith("penstock."):
        raise misuse(f"{name} is the function that makes the serde: write {name}()", function)
