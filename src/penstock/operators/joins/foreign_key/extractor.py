"""How the foreign key is found in a row of the left table: always called with the key and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ForeignKeyExtractor = Callable[[Any, Any], Any]
"""`(primary key, value) -> foreign key`, or None for a row that refers to nothing."""


class ExtractFromValue:
    """Calls a function of the value alone."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, key: Any, value: Any) -> Any:
        """The foreign key of a row."""
        return self._function(value)


def from_function(function: Callable[[Any], Any]) -> ForeignKeyExtractor:
    """An extractor that looks at the value only.

    >>> from_function(lambda value: value["customer"])(1, {"customer": "c"})
    'c'
    """
    return ExtractFromValue(function)
