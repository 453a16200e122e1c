"""From the filters of a query to the part of a store that has to be read for it. Spark filters what is read once more."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from penstock.query.table_read import ALL, MAX_KEYS, TableRead, key_of

_EQUAL: Final = ("=", "in")
_BOUNDS: Final = (">", ">=", "<", "<=", "prefix")


class Filter(NamedTuple):
    """One of the conditions that all have to hold: a column, an operator (`=`, `in`, `>`, `>=`, `<`, `<=`, `prefix`), a value."""

    column: str
    operator: str
    value: Any


def filters_from(text: str) -> list[Filter]:
    """Filters from JSON: lists of column, operator and value."""
    return [Filter(*found) for found in json.loads(text)] if text else []


def read_for(filters: Iterable[Filter], key_format: str | None) -> TableRead:
    """What has to be read for rows that pass all filters.

    >>> read_for([Filter("key", ">=", "a"), Filter("key", "<", "c"), Filter("value", ">", 3)], "string")
    TableRead(keys=None, low='a', high='c', start_low=None, start_high=None)
    """
    found = ALL
    for each in filters:
        narrowed = ALL
        if each.column == "key" and key_format is not None:
            narrowed = _of_key(each, key_format)
        elif each.column == "window_start":
            narrowed = _of_start(each)
        found = both(found, narrowed)
    return found


def both(one: TableRead, other: TableRead) -> TableRead:
    """What lies in both."""
    keys = one.keys if other.keys is None else other.keys
    if one.keys is not None and other.keys is not None:
        keys = tuple(key for key in one.keys if key in other.keys)
    return TableRead(
        keys,
        _most(one.low, other.low),
        _least(one.high, other.high),
        _most(one.start_low, other.start_low),
        _least(one.start_high, other.start_high),
    )


def _of_key(found: Filter, key_format: str) -> TableRead:
    if found.operator in _EQUAL:
        values = [found.value] if found.operator == "=" else list(found.value)
        keys = [key for value in values if (key := _key(value, key_format)) is not None]
        return ALL if len(keys) > MAX_KEYS else TableRead(tuple(dict.fromkeys(keys)))
    key = _key(found.value, key_format)
    if found.operator not in _BOUNDS or key is None or key_format == "uuid":
        return ALL  # the text of an UUID is ordered as Spark orders text, but what it is compared with may be none
    if found.operator == "prefix":
        return TableRead(low=key, high=_behind(key)) if key_format == "string" else ALL
    return TableRead(low=key) if found.operator.startswith(">") else TableRead(high=key)


def _behind(prefix: str) -> str | None:
    """A text behind all that begin with a prefix; None where there is none."""
    last = ord(prefix[-1]) if prefix else 0x10FFFF
    return None if last == 0x10FFFF else prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


def _of_start(found: Filter) -> TableRead:
    value = found.value
    if found.operator not in ("=", ">", ">=", "<", "<=") or type(value) is not int:
        return ALL
    return TableRead(
        start_low=value if found.operator in ("=", ">", ">=") else None,
        start_high=value if found.operator in ("=", "<", "<=") else None,
    )


def _key(value: Any, key_format: str) -> Any:
    """None for what no key can be equal to."""
    try:
        return None if value is None else key_of(value, key_format)
    except ValueError:
        return None


def _most(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else max(one, other)


def _least(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else min(one, other)
