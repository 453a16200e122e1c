"""Exceptions as data: sent by a stream thread and made again in the driver without running code named in the message.

A message has the class name and the text of an exception, and its arguments and attributes if they are plain data. The driver
finds the class among imported modules only. It calls neither `__new__` nor `__init__` of the class, only those of its
built-in base class. If the class is unknown or cannot be made, the driver uses text.
"""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass
from typing import Any

from penstock.errors import SerializationError, StreamsError
from penstock.ids import TaskId, TopicPartition
from penstock.kafka.fetch import Short
from penstock.wire import Codec

_PLAIN = Codec(TaskId, TopicPartition, Short)  # classes in the arguments of penstock's own errors
_MOST_BYTES = 1 << 20
_MOST_CAUSES = 8
_MOST_TEXT = 100_000


@dataclass(frozen=True)
class Raised:
    """An exception as plain data. `args` and `attributes` are encoded, or None if they are not plain data."""

    module: str
    name: str
    text: str
    args: bytes | None = None
    attributes: bytes | None = None
    cause: Raised | None = None

    @classmethod
    def of(cls, error: BaseException, causes: int = _MOST_CAUSES) -> Raised:
        """Convert an exception and its causes."""
        kind, cause = type(error), error.__cause__
        return cls(
            kind.__module__,
            kind.__qualname__,
            shortened(_text_of(error)),
            _plain(_arguments(error)),
            _plain(vars(error)),
            None if cause is None or not causes else cls.of(cause, causes - 1),
        )

    def exception(self, kind: type[BaseException] = BaseException) -> BaseException | None:
        """Make the exception with its causes. None if its class is unknown here or not a subclass of `kind`."""
        found = _known_class(self.module, self.name)
        if found is None or not issubclass(found, kind):
            return None
        error = self._made(found)
        if error is not None:
            error.__cause__ = self.made_cause()
        return error

    def as_text(self) -> StreamsError:
        """Return a `StreamsError` with the exception's name and text, for an unknown class."""
        name = self.name if self.module == builtins.__name__ else f"{self.module}.{self.name}"
        error = StreamsError(f"{name}: {self.text}")
        error.__cause__ = self.made_cause()
        return error

    def made_cause(self) -> BaseException | None:
        """Return the cause as an exception or as text, or None."""
        return None if self.cause is None else self.cause.exception() or self.cause.as_text()

    def _made(self, known: type[BaseException]) -> BaseException | None:
        base = next(kind for kind in known.__mro__ if kind.__module__ == builtins.__name__)
        try:
            arguments = (self.text,) if self.args is None else _PLAIN.decode(self.args)
            error: BaseException = base.__new__(known, *arguments)
            base.__init__(error, *arguments)  # type: ignore[misc]
            if self.attributes is not None:
                vars(error).update(_PLAIN.decode(self.attributes))
            str(error)
        except Exception:  # noqa: BLE001 - the class cannot be made or formatted from these arguments
            return None
        return error


def shortened(text: str) -> str:
    """Shorten a long text in the middle."""
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]} … ({len(text):,} characters) … {text[-half:]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's exception whose __str__ fails
        return "(its text cannot be read: __str__ failed)"


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Return the arguments of an exception. For file errors the file name is added."""
    if isinstance(error, OSError) and error.filename is not None and len(error.args) == 2:
        return (*error.args, error.filename)
    return tuple(error.args)


def _plain(value: Any) -> bytes | None:
    try:
        data = _PLAIN.encode(value)
        _PLAIN.decode(data)  # what is nested too deep is written, and not read
    except (SerializationError, RecursionError):
        return None
    return data if len(data) <= _MOST_BYTES else None


def _known_class(module: str, name: str) -> type[BaseException] | None:
    """Find an exception class by name among imported modules, without running code."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
