"""Which Arrow type a value has by itself, so that a column holds only values that Arrow gives back as they were.

Arrow infers one type for all values of a column: `1` beside `2.5` comes back as `1.0`, and dicts get each other's keys with null.
Values are put into one column only where they have the same type each by itself.

| value | type |
|---|---|
| None, bool, str, bytes, float, int | null, bool, string, binary, double, int64 |
| list | a list of the one type that all entries have; None may be among them |
| dict with text as keys | a struct of the types of its values, in its order |
| others that come back equal and of the same class | what Arrow infers, such as timestamps and decimals |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from penstock.errors import StreamsError

_SCALARS: dict[type, Any] = {type(None): "null", bool: "bool", str: "string", bytes: "binary", float: "double"}
_LONG_MAX, _LONG_MIN = 2**63 - 1, -(2**63)
_MAX_DEPTH = 64


class _Own:
    """The type of a value that Arrow would change: equal to none, so that its record is refused alone."""


def runs(*columns: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The longest runs of rows that have the same types in all columns, as `(start, stop)`.

    >>> list(runs([1, 2, 2.5, None], ["a"] * 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    start = 0
    for _, rows in groupby(zip(*map(_types, columns))):
        stop = start + sum(1 for _ in rows)
        yield start, stop
        start = stop


def type_of(value: Any, depth: int = 0) -> Any:
    """What stands for the type of a value; values of equal types share a column. Raises ValueError where Arrow would change it.

    >>> type_of({"a": 1}) == type_of({"a": 2}), type_of({"a": 1}) == type_of({"b": 1})
    (True, False)
    """
    kind = type(value)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
    if kind is int:
        if not _LONG_MIN <= value <= _LONG_MAX:
            raise ValueError("it has a number of more than 64 bits")
        return "int64"
    if kind is list:
        return "list", _type_of_entries(value, depth)
    if kind is dict:
        if not {str}.issuperset(map(type, value)):
            raise ValueError("it has a dict with keys that are not text")
        return tuple((name, type_of(entry, depth + 1)) for name, entry in value.items())
    return _inferred(value)


def _type_of_entries(entries: list[Any], depth: int) -> Any:
    types = {type_of(entry, depth + 1) for entry in entries} - {"null"}
    if len(types) > 1:
        raise ValueError("it has a list with entries of several types")
    return types.pop() if types else "null"


def _inferred(value: Any) -> Any:
    kind = type(value)
    try:
        array = pa.array([value])
        (back,) = array.to_pylist()
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as exc:
        raise ValueError(f"Arrow has no type for {kind.__qualname__}") from exc
    if type(back) is not kind or back != value:
        raise ValueError(f"{kind.__qualname__} comes back from Arrow as {type(back).__qualname__}")
    return str(array.type)


def _types(values: Sequence[Any]) -> Sequence[Any]:
    kinds = set(map(type, values))
    if len(kinds) == 1 and (kind := kinds.pop()) in _SCALARS:
        return [_SCALARS[kind]] * len(values)
    return [_type_or_own(value) for value in values]


def _type_or_own(value: Any) -> Any:
    try:
        return type_of(value)
    except ValueError:
        return _Own()


def array_of(column: str, values: Sequence[Any], given: pa.DataType | None) -> pa.Array:
    """Values as an Arrow column: of the type that the user has given, or of the one type that all of them have."""
    try:
        if given is None:
            if len(values) == 1:  # the values of a longer run have been compared by their types
                type_of(values[0])
            return pa.array(values)
        for value in values:
            refuse_loss(value, given)
        return pa.array(values, given)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as exc:
        kinds = ", ".join(sorted({type(value).__qualname__ for value in values}))
        raise StreamsError(
            f"map_batches cannot put a {column} of type {kinds} into an Arrow column without changing it: {exc}. Give "
            f"map_batches a schema with the type of the {column}, or a serde whose {column}s are of one type, or use map instead"
        ) from exc


def refuse_loss(value: Any, given: pa.DataType) -> None:
    """Refuse entries of dicts that a struct has no field for: Arrow would leave them out."""
    if isinstance(value, dict) and pa.types.is_struct(given):
        fields = {field.name: field.type for field in given}
        for name, entry in value.items():
            if name not in fields:
                raise ValueError(f"the schema has no field {name!r}")
            refuse_loss(entry, fields[name])
    elif isinstance(value, list) and (pa.types.is_list(given) or pa.types.is_large_list(given)):
        for entry in value:
            refuse_loss(entry, given.value_type)
