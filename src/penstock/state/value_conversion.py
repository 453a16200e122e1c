"""How the values of a store are shown to a reader who asked for another kind of value than it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import InvalidStateStoreError
from penstock.state.store import ValueAndTimestamp


def converter(held: str, asked: str, kind: str) -> Callable[[Any], Any]:
    """From the values a store holds to those that were asked for; raises where it has less than that.

    >>> converter("timestamped", "plain", "key_value")(ValueAndTimestamp("x", 5))
    'x'
    """
    if held == asked:
        return _same
    if asked == "plain":
        return _aggregation if kind == "session" else _value
    if held == "headers" and asked == "timestamped":
        return _value_and_timestamp
    raise InvalidStateStoreError(f"values are {held}, not {asked}")


def _same(value: Any) -> Any:
    return value


def _value(value: Any) -> Any:
    return None if value is None else value.value


def _value_and_timestamp(value: Any) -> Any:
    return None if value is None else ValueAndTimestamp(value.value, value.timestamp)


def _aggregation(value: Any) -> Any:
    return None if value is None else value.aggregation
