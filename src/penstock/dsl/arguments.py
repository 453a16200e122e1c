"""What operators are given: options, functions and serdes, taken as meant or refused with the right call."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from penstock.errors import ConfigError
from penstock.serdes.arguments import is_serde, is_type, refuse_factory
from penstock.serdes.serde import Serdes
from penstock.user_code import is_async, misuse

O = TypeVar("O")  # noqa: E741 - an option, as K and V are a key and a value


def option(kind: type[O], given: Any, example: str | None = None) -> O | None:
    """The options, if they are of the kind the operator takes; `example` shows how they are made."""
    if given is None or isinstance(given, kind):
        return given
    name = kind.__name__
    if example is None:
        if isinstance(given, str):
            example = f"{name}(name={given!r})"
        elif is_serde(given):
            example = f"{name}(key_serde=…, value_serde=…)"
        else:
            example = f"{name}(…)"
    raise misuse(f"expects a {name} here, got {given!r}: write {example}")


def serde_of(owner: str, what: str, given: Any) -> Any:
    """A serde as it is, that of a type, or None; what is clearly neither is refused, before the first record shows it."""
    if given is None:
        return None
    refuse_factory(given, owner)
    if is_type(given):
        try:
            return Serdes.serde_from(given)
        except ConfigError as exc:
            raise misuse(f"{what}: {exc}", owner) from None
    if isinstance(given, type):
        raise misuse(f"{what} is the class {given.__qualname__}: give a serde of it, as in {what}={given.__qualname__}()", owner)
    if not is_serde(given) and not callable(given):
        raise misuse(f"{what} must be a serde, got {given!r}; serdes come from Serdes, as in {what}=Serdes.string()", owner)
    return given


def check_name_first(owner: str, what: str, given: Any) -> None:
    """Refuse a serde where the name comes first."""
    if given is None or isinstance(given, str):
        return
    if is_serde(given) or callable(given):
        raise misuse(
            f"the first argument is the name, got {given!r}: write {owner}(key_serde=…, value_serde=…), "
            f'or with a name {owner}("{what}", …, …)',
            owner,
        )
    raise misuse(f"{what} must be a string, got {given!r}", owner)


def required(function: Any, what: str, *parameters: str, hint: str = "") -> None:
    """Refuse something that cannot be called, or not with what it will be called with, before it fails at the first record."""
    if not callable(function):
        raise misuse(f"{what} must be callable, got {function!r}")
    if is_async(function):
        raise misuse(f"{what} {name_of(function)} is an async function, which would not be awaited: give a plain function")
    if isinstance(function, type):
        return  # the signature of a class is that of its metaclass for some, and for int and str none at all
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return  # builtins do not always tell
    try:
        signature.bind(*parameters)
    except TypeError:
        shape = f"{name_of(function)}{signature}"
        raise misuse(f"{what} is called as f({', '.join(parameters)}), but it is {shape}{hint}") from None


def check_supplier(supplier: Any, what: str) -> None:
    """Refuse a processor in place of what makes one: every task needs its own."""
    if not callable(supplier):
        made = type(supplier).__name__
        raise misuse(
            f"{what} makes a new processor for each task: give the class {made} or lambda: {made}(…), not an object of it"
        )


def name_of(function: Any) -> str:
    """How a function is shown before its parameters."""
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name
