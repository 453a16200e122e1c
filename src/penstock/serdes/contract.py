"""The interface of serdes: settings, headers, None, and how the halves are called.

penstock calls a serializer as `(topic, value)` and a deserializer as `(topic, data)`. Whether a user's half takes headers is
read once from its signature, by `as_serializer` or `as_deserializer`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.errors import ConfigError
from penstock.serdes.arguments import refuse_factory
from penstock.serdes.codecs import Deserializer as DeserializerFunction
from penstock.serdes.codecs import Serializer as SerializerFunction

T = TypeVar("T")
_Adapted = TypeVar("_Adapted", bound="_UserHalf")

OpenHeaders = list[tuple[str, "bytes | None"]]


class Serializer(Generic[T]):
    """A base class for serializers with settings, headers or resources. Plain functions do not need it.

    `headers` is the list of the record's headers; appended headers are written with the record. None is written as null
    without a call, unless the class sets `handles_none = True`.

    >>> class Upper(Serializer[str]):
    ...     def serialize(self, topic, value, headers=None):
    ...         return value.upper().encode()
    >>> Upper()("topic", "a")
    b'A'
    """

    handles_none: bool = False

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the application's settings. Called before the first record if penstock makes the object."""

    def serialize(self, topic: str, value: T | None, headers: OpenHeaders | None = None) -> bytes | None:
        """Return the bytes of a value."""
        raise TypeError(f"{type(self).__name__} must implement serialize(topic, value, headers=None)")

    def close(self) -> None:
        """Release resources."""

    def __call__(self, topic: str, value: T | None, headers: OpenHeaders | None = None) -> bytes | None:
        """Serialize a value; None becomes null."""
        serializer: Any = as_serializer(self)
        return serializer(topic, value, headers)  # type: ignore[no-any-return]


class Deserializer(Generic[T]):
    """A base class for deserializers with settings, headers or resources. Plain functions do not need it.

    Null becomes None without a call, unless the class sets `handles_none = True`.
    """

    handles_none: bool = False

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the application's settings. Called before the first record if penstock makes the object."""

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None = None) -> T | None:
        """Return the value of bytes."""
        raise TypeError(f"{type(self).__name__} must implement deserialize(topic, data, headers=None)")

    def close(self) -> None:
        """Release resources."""

    def __call__(self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None = None) -> T | None:
        """Deserialize bytes; null becomes None."""
        deserializer: Any = as_deserializer(self)
        return deserializer(topic, data, headers)  # type: ignore[no-any-return]


class _UserHalf:
    """A user's serializer or deserializer, adapted to its signature."""

    __slots__ = ("call", "given", "handles_none", "wants_headers")

    called_directly = True

    def __init__(self, given: Any, call: Callable[..., Any], wants_headers: bool, handles_none: bool) -> None:
        self.given = given
        """The user's object. Halves with equal objects are equal."""
        self.call = call
        """Called with topic and value or bytes, and with headers if it takes them."""
        self.wants_headers = wants_headers
        self.handles_none = handles_none

    def __call__(self, topic: str, value: Any, headers: Any = None) -> Any:
        """Call the user's half. None becomes None unless the half handles it."""
        if value is None and not self.handles_none:
            return None
        if self.wants_headers:
            return self.call(topic, value, [] if headers is None else headers)
        return self.call(topic, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(self.given == other.given)

    def __hash__(self) -> int:
        return hash((type(self), self.given))

    def __reduce__(self) -> tuple[Any, ...]:
        return _user_half, (type(self), self.given, self.handles_none)

    def __repr__(self) -> str:
        return shown_half(self.given)


class UserSerializer(_UserHalf):
    """A user's serializer."""

    __slots__ = ()


class UserDeserializer(_UserHalf):
    """A user's deserializer."""

    __slots__ = ()


def as_serializer(serde: Any) -> SerializerFunction | None:
    """Return the serializer of a serde in the form that penstock calls. A callable is adapted, None stays None.

    >>> as_serializer(lambda topic, value: value.encode())("topic", None) is None
    True
    """
    half: SerializerFunction | None = _as_half(serde, "serializer", UserSerializer)
    return half


def as_deserializer(serde: Any) -> DeserializerFunction | None:
    """Return the deserializer of a serde in the form that penstock calls. A callable is adapted, None stays None."""
    half: DeserializerFunction | None = _as_half(serde, "deserializer", UserDeserializer)
    return half


def wants_headers(half: Any) -> bool:
    """Return True if an adapted half takes headers as a third argument."""
    return bool(getattr(half, "wants_headers", False))


def call_with_headers(half: Any, topic: str, value: Any, headers: Any) -> Any:
    """Call a half, with headers if it takes them."""
    return half(topic, value, headers) if wants_headers(half) else half(topic, value)


def _as_half(serde: Any, which: str, adapter: type[_Adapted]) -> Any:
    if serde is None or getattr(serde, "called_directly", False):
        return serde
    given = _given_half(serde, which)
    if getattr(given, "called_directly", False):
        return given
    owner = getattr(given, "__self__", None)
    handles_none = any(getattr(one, "handles_none", False) for one in (serde, given, owner))
    return _user_half(adapter, given, handles_none)


def _user_half(adapter: type[_Adapted], given: Any, handles_none: bool) -> _Adapted:
    # The class's own __call__ accepts headers in any case. The user's signature is that of the method.
    method = getattr(given, "serialize" if adapter is UserSerializer else "deserialize", None)
    call = method if callable(method) else given
    by = _headers_by(call, given)
    if by == "keyword":
        return adapter(given, lambda topic, value, headers: call(topic, value, headers=headers), True, handles_none)
    return adapter(given, call, by == "position", handles_none)


def _given_half(serde: Any, which: str) -> Any:
    """Return the user's half: an attribute, a method that takes records, or, as in Java, a method that returns the object."""
    method = which.removesuffix("r")
    if isinstance(serde, type) and (hasattr(serde, which) or hasattr(serde, method)):
        raise ConfigError(f"{serde.__qualname__} is the class of a serde: give an object of it, {serde.__qualname__}()")
    found = getattr(serde, which, None)
    if callable(found):
        if inspect.ismethod(found) and not _takes_arguments(found):
            found = found()
        return found
    if callable(getattr(serde, method, None)) or callable(serde):
        refuse_factory(serde)
        return serde
    raise TypeError(f"expected a serde or a {which} (a callable), got {serde!r}")


def _takes_arguments(function: Any) -> bool:
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True


def _headers_by(call: Any, given: Any) -> str | None:
    """Return how a half takes headers: by `keyword`, by `position`, or None."""
    try:
        parameters = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):  # a C function without a signature
        return None
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in places if p.default is p.empty]
    endless = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(places) > 1 and places[1].name == "headers":
        raise ConfigError(
            f"{shown_half(given)} takes its headers second, as in Java: here they come last, (topic, value, headers)"
        )
    named = [p for p in parameters if p.name == "headers" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    others = [p for p in required if p not in named]
    if (len(places) < 2 and not endless) or len(others) > 3 or (named and len(others) > 2):
        raise ConfigError(
            f"{shown_half(given)} cannot serve as a serializer or deserializer: it has to take (topic, value) or "
            f"(topic, value, headers), and takes {inspect.signature(call)}"
        )
    if named:
        return "keyword"
    return "position" if len(others) == 3 else None


def shown_half(half: Any) -> str:
    """Return the name of a function or of an object's class. Not its repr, which may refer back to the serde.

    >>> shown_half(as_serializer), shown_half("text".encode)
    ('as_serializer', 'str.encode')
    """
    half = half.given if isinstance(half, _UserHalf) else half
    name = getattr(half, "__qualname__", None)
    return name if isinstance(name, str) else type(half).__qualname__
