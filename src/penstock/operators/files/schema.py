"""The Arrow schema of a sink of files: the one that is given, or that of the stream's typed values."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any, Final

import pyarrow as pa

from penstock.errors import TopologyError
from penstock.serdes.serde import as_deserializer

_SIMPLE: Final[dict[Any, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us", "UTC"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    decimal.Decimal: pa.decimal128(38, 18),
    uuid.UUID: pa.string(),
}
_LISTS: Final = (list, set, frozenset, tuple)
_GIVE: Final = "Give to_files(schema=pyarrow.schema(…)), or values of a dataclass, TypedDict, msgspec Struct or pydantic model"
_MAX_DEPTH = 32


def schema_for(given: Any, value_serde: Any) -> pa.Schema:
    """The schema that is given, or that of the type whose values the serde reads.

    >>> import dataclasses
    >>> Order = dataclasses.make_dataclass("Order", [("id", str), ("amount", float)])
    >>> schema_for(Order, None).names
    ['id', 'amount']
    """
    if isinstance(given, pa.Schema):
        if not given.names:
            raise TopologyError(f"to_files(): the schema has no columns. {_GIVE}.")
        if len(set(given.names)) < len(given.names):
            raise TopologyError(f"to_files(): the schema has a column twice: {', '.join(given.names)}. Rename one of them.")
        return given
    annotation = given if given is not None else _annotation_of(value_serde)
    if annotation is None:
        raise TopologyError(f"to_files(): the columns of the files are not known. {_GIVE} (Serdes.json(T)).")
    fields = _fields_of(annotation)
    if not fields:
        raise TopologyError(f"to_files(): {_shown(annotation)} has no fields to make columns of. {_GIVE}.")
    return pa.schema([pa.field(name, _type_of(kind, name, 0)) for name, kind in fields.items()])


def _annotation_of(serde: Any) -> Any:
    """The type of a typed serde, also where it was guessed from an annotation."""
    if serde is None:
        return None
    half = as_deserializer(serde)
    half = getattr(half, "own", half)
    return getattr(half, "annotation", None)


def _fields_of(kind: Any) -> dict[str, Any] | None:
    """The fields of a class with their types, under the names that its values have as dicts; None if it has no fields."""
    if not isinstance(kind, type):
        return None
    if hasattr(kind, "__struct_encode_fields__"):
        hints = typing.get_type_hints(kind)
        return {name: hints[own] for own, name in zip(kind.__struct_fields__, kind.__struct_encode_fields__)}  # type: ignore[attr-defined]
    if hasattr(kind, "__pydantic_fields__"):
        hints = typing.get_type_hints(kind)
        return {name: hints[name] for name in kind.__pydantic_fields__}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    if typing.is_typeddict(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return typing.get_type_hints(kind)
    return None


def _type_of(kind: Any, column: str, depth: int) -> pa.DataType:
    if depth > _MAX_DEPTH:
        raise _unsupported(kind, column, f"it is nested more than {_MAX_DEPTH} deep")
    if isinstance(kind, typing.NewType):
        return _type_of(kind.__supertype__, column, depth + 1)
    if isinstance(kind, type) and kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, *_WRAPPERS):
        return _type_of(arguments[0], column, depth + 1)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in arguments if option is not type(None)]
        if len(options) != 1:
            raise _unsupported(kind, column, "a column has one type")
        return _type_of(options[0], column, depth + 1)
    if origin is typing.Literal:
        return _type_of_values(kind, arguments, column, depth)
    if origin in _LISTS and arguments:
        entries = [argument for argument in arguments if argument is not Ellipsis]
        if len(set(entries)) == 1:
            return pa.list_(_type_of(entries[0], column, depth + 1))
    if origin is dict and arguments:
        return pa.map_(_type_of(arguments[0], column, depth + 1), _type_of(arguments[1], column, depth + 1))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _type_of_values(kind, [member.value for member in kind], column, depth)
    if fields := _fields_of(kind):
        return pa.struct([pa.field(name, _type_of(each, f"{column}.{name}", depth + 1)) for name, each in fields.items()])
    raise _unsupported(kind, column, "it does not say which type its entries have")


_WRAPPERS: Final = tuple(getattr(typing, name) for name in ("Required", "NotRequired", "ReadOnly") if hasattr(typing, name))


def _type_of_values(kind: Any, values: typing.Iterable[Any], column: str, depth: int) -> pa.DataType:
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) != 1:
        raise _unsupported(kind, column, "a column has one type")
    return _type_of(kinds.pop(), column, depth + 1)


def _unsupported(kind: Any, column: str, why: str) -> TopologyError:
    return TopologyError(f"to_files(): no column can be made of {column!r}, which is a {_shown(kind)}: {why}. {_GIVE}.")


def _shown(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def without_unsupported(schema: pa.Schema, format: str) -> pa.Schema:
    """The same columns, of types that readers of the format have; TopologyError if one has none.

    Times are in microseconds, which Spark and Delta have. Only whole columns can be required: Arrow checks no fields inside.
    """
    return pa.schema([field.with_type(_supported(field.type, field.name, format)).remove_metadata() for field in schema])


def _supported(kind: pa.DataType, column: str, format: str) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_dictionary(kind):
        return _supported(kind.value_type, column, format)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _supported(each.type, f"{column}.{each.name}", format)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_supported(kind.key_type, column, format), _supported(kind.item_type, column, format))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_supported(kind.value_type, column, format))
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    lacks_it = pa.types.is_unsigned_integer(kind) or pa.types.is_time(kind) or pa.types.is_float16(kind)
    if pa.types.is_null(kind) or pa.types.is_duration(kind) or (format == "delta" and lacks_it):
        raise TopologyError(
            f"to_files(): the column {column!r} is of type {kind}, which {format} does not have. Use another type."
        )
    return kind
