"""Exceptions as data: told by a thread, made again in the driver without running anything that a message names.

Of an exception its class's name travels, and what it says; its arguments and attributes too where they are plain. The driver
looks the class up among what it has imported already, imports nothing for it, and calls neither its `__new__` nor its
`__init__`: only those of the built-in exception it derives from. What it does not know, or cannot make, is told as text.
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

_PLAIN = Codec(TaskId, TopicPartition, Short)  # what errors of our own say beside plain data
_MOST_BYTES = 1 << 20
_MOST_CAUSES = 8
_MOST_TEXT = 100_000


@dataclass(frozen=True)
class Raised:
    """An exception as it travels; `args` and `attributes` are plain data as bytes, None where they are not plain."""

    module: str
    name: str
    text: str
    args: bytes | None = None
    attributes: bytes | None = None
    cause: Raised | None = None

    @classmethod
    def of(cls, error: BaseException, causes: int = _MOST_CAUSES) -> Raised:
        """What can be told of an exception and of what caused it."""
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
        """The exception with its causes, where its class is known here and is of this kind; None where it is not."""
        found = _known_class(self.module, self.name)
        if found is None or not issubclass(found, kind):
            return None
        error = self._made(found)
        if error is not None:
            error.__cause__ = self.made_cause()
        return error

    def as_text(self) -> StreamsError:
        """The same for a class that is not known here."""
        name = self.name if self.module == builtins.__name__ else f"{self.module}.{self.name}"
        error = StreamsError(f"{name}: {self.text}")
        error.__cause__ = self.made_cause()
        return error

    def made_cause(self) -> BaseException | None:
        """What caused it, as an exception or as text; None where nothing did."""
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
        except Exception:  # noqa: BLE001 - it cannot be made of this, or cannot say what it means without the rest of it
            return None
        return error


def shortened(text: str) -> str:
    """A text that somebody may read, beginning and end; more of it nobody would."""
    half = _MOST_TEXT // 2
    return text if len(text) <= _MOST_TEXT else f"{text[:half]} … ({len(text):,} characters) … {text[-half:]}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - what a user's exception does when it is asked what it means
        return "(it does not say what it means)"


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """What it was made of; one that tells of a file keeps the file's name apart."""
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
    """A class by its name, among what is imported; nothing is run to find it."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
