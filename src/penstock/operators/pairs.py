"""What functions given to `map`, `flat_map` and `flat_map_values` return, checked: text is neither a pair nor many values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from penstock.errors import StreamsError

_TEXT = (str, bytes, bytearray, memoryview)


def as_pair(result: Any, operator: str) -> tuple[Any, Any]:
    """Return a result other than a tuple of two as a pair; StreamsError if it is none.

    >>> as_pair(["a", 1], "map")
    ('a', 1)
    >>> as_pair("ab", "map")
    Traceback (most recent call last):
    ...
    penstock.errors.StreamsError: the function given to map returned a str: it must return a pair (key, value)
    """
    if isinstance(result, Iterable) and not isinstance(result, (*_TEXT, Mapping, Set)):
        items = tuple(result)
        if len(items) == 2:
            return items
        returned = f"{len(items)} items"
    else:
        returned = "None" if result is None else f"a {type(result).__name__}"
    raise StreamsError(f"the function given to {operator} returned {returned}: it must return a pair (key, value)")


def as_many(result: Any, operator: str, what: str) -> Iterable[Any]:
    """Return a result that can be read item by item; StreamsError if it is None or text."""
    if result is None or isinstance(result, _TEXT):
        returned = "None" if result is None else f"a {type(result).__name__}"
        raise StreamsError(f"the function given to {operator} returned {returned}: it must return {what}, [] for none")
    items: Iterable[Any] = result
    return items
