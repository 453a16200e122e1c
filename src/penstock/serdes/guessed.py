"""Serdes that nobody has given, but that annotations or the stream itself suggest: used where there is no default serde.

In Kafka Streams what has no serde takes the application's default. Where none is configured it would fail; there a guess is taken
instead. A configured default always comes first, so a guess changes nothing that works without it.
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
        """Whoever prepares a half takes what `or_default` gives."""

    @property
    def wants_headers(self) -> bool:
        """Whether what was guessed takes headers."""
        return bool(getattr(self.own, "wants_headers", False))

    def __call__(self, topic: str, value: Any, headers: Any = None) -> Any:
        """What was guessed, where nobody has asked for the default."""
        return self.own(topic, value, headers) if self.wants_headers else self.own(topic, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self.own == other.own)

    def __hash__(self) -> int:
        return hash((type(self), self.part))

    def __repr__(self) -> str:
        return repr(self.own)


class GuessedSerializer(_Guess):
    """A serializer that gives way to the default one."""

    __slots__ = ()

    def or_default(self, getter: Any) -> Any:
        """The serializer of the default serde if there is one."""
        return as_serializer(_default(getter, self.part)) if _has_default(getter, self.part) else self.own


class GuessedDeserializer(_Guess):
    """A deserializer that gives way to the default one."""

    __slots__ = ()

    def or_default(self, getter: Any) -> Any:
        """The deserializer of the default serde if there is one."""
        return as_deserializer(_default(getter, self.part)) if _has_default(getter, self.part) else self.own


class GuessedSerde(Serde[Any]):
    """A serde that gives way to the default one."""

    def __init__(self, serde: Any, part: str) -> None:
        self.own, self.part = serde, part
        super().__init__(
            GuessedSerializer(as_serializer(serde), part), GuessedDeserializer(as_deserializer(serde), part), repr(serde)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return GuessedSerde, (self.own, self.part)

    def or_default(self, getter: Any) -> Any:
        """The default serde if there is one."""
        return _default(getter, self.part) if _has_default(getter, self.part) else self.own


def guess(serde: Any, part: str) -> Any:
    """A serde as a guess; None where there is none.

    >>> guess(Serdes.string(), "key")
    Serdes.string()
    """
    return serde if serde is None or isinstance(serde, GuessedSerde) else GuessedSerde(serde, part)


def given_serde(serde: Any) -> Any:
    """A serde that somebody has given; None for a guess."""
    return None if isinstance(serde, GuessedSerde) else serde


def or_default(given: Any, getter: Any) -> Any:
    """A serde, or a half of one, as it is used where the defaults are known."""
    return given.or_default(getter) if isinstance(given, GuessedSerde | GuessedSerializer | GuessedDeserializer) else given


def guess_value(function: Any) -> Any:
    """The serde of what a function returns, if its annotations say it.

    >>> def length(text: str) -> int:
    ...     return len(text)
    >>> guess_value(length), guess_value(lambda text: len(text)), guess_value(float)
    (Serdes.long(), None, Serdes.double())
    """
    return _of_type(_returned(function), "value")


def guess_key(function: Any) -> Any:
    """The same for a function that returns a key."""
    return _of_type(_returned(function), "key")


def guess_values(function: Any) -> Any:
    """The serde of each of the values that a function returns."""
    return _of_type(_element(_returned(function)), "value")


def guess_entry(function: Any) -> tuple[Any, Any]:
    """The serdes of the key and the value that a function returns.

    >>> def entry(key: str, value: str) -> tuple[int, str]:
    ...     return len(key), value
    >>> guess_entry(entry)
    (Serdes.long(), Serdes.string())
    """
    return _of_entry(_returned(function))


def guess_entries(function: Any) -> tuple[Any, Any]:
    """The serdes of the keys and the values of all that a function returns."""
    return _of_entry(_element(_returned(function)))


def guess_forwarded(supplier: Any, base: type[Any]) -> tuple[Any, Any]:
    """The serdes of what a processor forwards, if its class says it: `class Lengths(Processor[str, str, str, int])`.

    Of a base that keeps keys, or only makes values, that of the key is None.
    """
    for kind in supplier.__mro__ if isinstance(supplier, type) else ():
        for given in getattr(kind, "__orig_bases__", ()):
            arguments = get_args(given)
            if get_origin(given) is base and arguments:
                key = _of_type(arguments[2], "key") if len(arguments) == 4 else None
                return key, _of_type(arguments[-1], "value")
    return None, None


def guess_shared(one: Any, other: Any, part: str) -> Any:
    """The serde of two streams, if they have the same."""
    return guess(one, part) if one is not None and (one is other or repr(one) == repr(other)) else None


def _returned(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    if type(function).__module__.startswith(_OWN_WRAPPERS):  # of a user's function, which is called with less
        function = getattr(function, "joiner", None) or getattr(function, "function", None)
    if isinstance(function, type):
        return function
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001  (a name that is not there any more, something in C: then nothing is guessed)
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
