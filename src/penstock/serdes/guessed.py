"""Serdes that follow from annotations or from the stream, used if there is no default serde.

In Kafka Streams an operation without a serde uses the application's default. Without a configured default it would fail; then
penstock uses the guessed serde. A configured default takes precedence, so guesses change nothing that works without them.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock.errors import ConfigError
from penstock.serdes.serde import Serde, Serdes, WrappingNullable, as_deserializer, as_serializer

_OWN_WRAPPERS = "penstock.operators."
_MANY = (list, tuple, set, frozenset, Iterable, Iterator, Generator, Collection, Sequence)


class _Guess(WrappingNullable):
    __slots__ = ("own", "part")

    def __init__(self, own: Any, part: str) -> None:
        self.own = own
        self.part = part

    def set_if_unset(self, getter: Any) -> None:
        """Do nothing: `or_default` resolves a guess."""

    @property
    def wants_headers(self) -> bool:
        """True if the guessed half takes headers."""
        return bool(getattr(self.own, "wants_headers", False))

    def __call__(self, topic: str, value: Any, headers: Any = None) -> Any:
        """Call the guessed half, if the default was not requested."""
        return self.own(topic, value, headers) if self.wants_headers else self.own(topic, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self.own == other.own)

    def __hash__(self) -> int:
        return hash((type(self), self.part))

    def __repr__(self) -> str:
        return repr(self.own)


class GuessedSerializer(_Guess):
    """A guessed serializer. A default serde takes precedence."""

    __slots__ = ()

    def or_default(self, getter: Any) -> Any:
        """Return the default serde's serializer if there is one."""
        return as_serializer(_default(getter, self.part)) if _has_default(getter, self.part) else self.own


class GuessedDeserializer(_Guess):
    """A guessed deserializer. A default serde takes precedence."""

    __slots__ = ()

    def or_default(self, getter: Any) -> Any:
        """Return the default serde's deserializer if there is one."""
        return as_deserializer(_default(getter, self.part)) if _has_default(getter, self.part) else self.own


class GuessedSerde(Serde[Any]):
    """A guessed serde. A default serde takes precedence."""

    def __init__(self, serde: Any, part: str) -> None:
        self.own, self.part = serde, part
        super().__init__(
            GuessedSerializer(as_serializer(serde), part), GuessedDeserializer(as_deserializer(serde), part), repr(serde)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return GuessedSerde, (self.own, self.part)

    def or_default(self, getter: Any) -> Any:
        """Return the default serde if there is one."""
        return _default(getter, self.part) if _has_default(getter, self.part) else self.own


def guess(serde: Any, part: str) -> Any:
    """Mark a serde as guessed. None stays None.

    >>> guess(Serdes.string(), "key")
    Serdes.string()
    """
    return serde if serde is None or isinstance(serde, GuessedSerde) else GuessedSerde(serde, part)


def given_serde(serde: Any) -> Any:
    """Return a serde that the user gave, None for a guess."""
    return None if isinstance(serde, GuessedSerde) else serde


def or_default(given: Any, getter: Any) -> Any:
    """Resolve a guessed serde or half, for which the defaults must be known."""
    return given.or_default(getter) if isinstance(given, GuessedSerde | GuessedSerializer | GuessedDeserializer) else given


def guess_value(function: Any) -> Any:
    """Return the serde of a function's return annotation, if there is one.

    >>> def length(text: str) -> int:
    ...     return len(text)
    >>> guess_value(length), guess_value(lambda text: len(text)), guess_value(float)
    (Serdes.long(), None, Serdes.double())
    """
    return _of_type(_returned(function), "value")


def guess_key(function: Any) -> Any:
    """Return the serde of a function that returns a key."""
    return _of_type(_returned(function), "key")


def guess_values(function: Any) -> Any:
    """Return the serde of the elements that a function returns."""
    return _of_type(_element(_returned(function)), "value")


def guess_entry(function: Any) -> tuple[Any, Any]:
    """Return the serdes of the key and the value that a function returns.

    >>> def entry(key: str, value: str) -> tuple[int, str]:
    ...     return len(key), value
    >>> guess_entry(entry)
    (Serdes.long(), Serdes.string())
    """
    return _of_entry(_returned(function))


def guess_entries(function: Any) -> tuple[Any, Any]:
    """Return the serdes of keys and values of all entries that a function returns."""
    return _of_entry(_element(_returned(function)))


def guess_forwarded(supplier: Any, base: type[Any]) -> tuple[Any, Any]:
    """Return the serdes of a processor's output, from its class: `class Lengths(Processor[str, str, str, int])`.

    For a base class that keeps keys, or only makes values, the key's serde is None.
    """
    for kind in supplier.__mro__ if isinstance(supplier, type) else ():
        for given in getattr(kind, "__orig_bases__", ()):
            arguments = get_args(given)
            if get_origin(given) is base and arguments:
                key = _of_type(arguments[2], "key") if len(arguments) == 4 else None
                return key, _of_type(arguments[-1], "value")
    return None, None


def guess_shared(one: Any, other: Any, part: str) -> Any:
    """Return the serde of two streams if both have the same."""
    return guess(one, part) if one is not None and (one is other or repr(one) == repr(other)) else None


def _returned(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    if type(function).__module__.startswith(_OWN_WRAPPERS):  # a wrapper of a user's function
        function = getattr(function, "joiner", None) or getattr(function, "function", None)
    if isinstance(function, type):
        return function
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001  (an unknown name or a C function: nothing is guessed)
        return None


def _element(returned: Any) -> Any:
    origin, arguments = get_origin(returned), get_args(returned)
    if origin is tuple:
        return arguments[0] if len(arguments) == 2 and arguments[1] is ... else None
    return arguments[0] if origin in _MANY and arguments else None


def _of_entry(returned: Any) -> tuple[Any, Any]:
    arguments = get_args(returned)
    if get_origin(returned) is not tuple or len(arguments) != 2 or arguments[1] is ...:
        return None, None
    return _of_type(arguments[0], "key"), _of_type(arguments[1], "value")


def _of_type(returned: Any, part: str) -> Any:
    if get_origin(returned) in (Union, types.UnionType):
        rest = [one for one in get_args(returned) if one is not type(None)]
        returned = rest[0] if len(rest) == 1 else None  # None needs no serde
    if returned in (None, Any, object, type(None)) or isinstance(returned, TypeVar):
        return None
    try:
        return guess(Serdes.serde_from(returned), part)
    except ConfigError:
        return None


def _has_default(getter: Any, part: str) -> bool:
    return getter.app_configs.get(f"default.{part}.serde") is not None


def _default(getter: Any, part: str) -> Any:
    return getter.key_serde if part == "key" else getter.value_serde
