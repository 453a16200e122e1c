"""Bounds on Avro records, checked before fastavro reads them.

fastavro follows the data without a limit: a record of a recursive schema can use up the C stack, an array can declare 2**40 items
that take no byte each, and a decimal of 1 MB takes minutes to convert. `AvroBounds` walks such a record first and raises
`AvroBoundError`. Most schemas need no walk: they are not recursive, and every value in them takes at least one byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

MAX_DEPTH: Final = 500
"""Levels of records, unions, arrays and maps within each other. fastavro takes about 700 bytes of stack for each."""

MAX_SCHEMA_TYPES: Final = 100_000
"""Types in a schema whose names are replaced by what they stand for, as confluent-kafka does for each record."""

MAX_DECIMAL_BYTES: Final = 1_024
"""Bytes of a decimal, which has 2,466 digits then. Converting it takes time by the square of its size."""

_FREE_VALUES: Final = 100_000
_VALUES_PER_BYTE: Final = 16
_MAX_VARINT: Final = 10
_MAX_CACHED: Final = 1_000

_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = ("int", "long", "enum")
_RECORDS: Final = ("record", "error", "request")


class AvroBoundError(ValueError):
    """A record that is too deep, declares too many values, or ends too early."""


class _Kind(Enum):
    FIXED = auto()
    VARINT = auto()
    BYTES = auto()
    RECORD = auto()
    UNION = auto()
    ARRAY = auto()
    MAP = auto()


@dataclass(eq=False)
class _Type:
    kind: _Kind
    size: int = 0
    is_decimal: bool = False
    children: list[_Type] = field(default_factory=list)

    @property
    def takes_no_byte(self) -> bool:
        """True for `null`, an empty fixed or an empty record."""
        return (self.kind is _Kind.FIXED and self.size == 0) or (self.kind is _Kind.RECORD and not self.children)


class AvroBounds:
    """The bounds for records that were written with one schema, as fastavro has parsed it."""

    def __init__(self, writer_schema: Any) -> None:
        self._root = _compiled(writer_schema, {})
        shape = _Shape(self._root)
        self._types = shape.types
        self._is_plain = shape.is_plain
        self._has_decimal = shape.has_decimal

    def check(self, data: bytes, begin: int = 0) -> None:
        """Raise `AvroBoundError` if reading the data takes more depth, values or time than its size justifies."""
        if self._types > MAX_SCHEMA_TYPES:
            raise AvroBoundError(f"the schema of the record has more than {MAX_SCHEMA_TYPES} types")
        if self._is_plain and not (self._has_decimal and len(data) - begin > MAX_DECIMAL_BYTES):
            return
        try:
            _Walk(data, begin).value(self._root, 0)
        except IndexError:
            raise AvroBoundError("the record ends within a value") from None
        except RecursionError:
            raise AvroBoundError("the record is too deep for Python's recursion limit") from None


class _Walk:
    def __init__(self, data: bytes, begin: int) -> None:
        self._data, self._at = data, begin
        self._left = _FREE_VALUES + _VALUES_PER_BYTE * (len(data) - begin)

    def value(self, of: _Type, depth: int) -> None:
        self._take(1)
        kind = of.kind
        if kind is _Kind.FIXED:
            self._contents(of, of.size)
        elif kind is _Kind.VARINT:
            self._number()
        elif kind is _Kind.BYTES:
            self._contents(of, self._number())
        elif depth >= MAX_DEPTH:
            raise AvroBoundError(f"the record has more than {MAX_DEPTH} levels")
        elif kind is _Kind.RECORD:
            for child in of.children:
                self.value(child, depth + 1)
        elif kind is _Kind.UNION:
            branch = self._number()
            if not 0 <= branch < len(of.children):
                raise AvroBoundError(f"the record names branch {branch} of a union of {len(of.children)}")
            self.value(of.children[branch], depth + 1)
        else:
            self._blocks(of, depth)

    def _blocks(self, of: _Type, depth: int) -> None:
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # the size of the block in bytes
            if count > self._left:
                raise AvroBoundError(f"the record declares a block of {count} items, more than its size can hold")
            for _ in range(count):
                if of.kind is _Kind.MAP:
                    self._skip(self._number())
                self.value(of.children[0], depth + 1)

    def _contents(self, of: _Type, size: int) -> None:
        if of.is_decimal and size > MAX_DECIMAL_BYTES:
            raise AvroBoundError(f"the record has a decimal of {size} bytes, and {MAX_DECIMAL_BYTES} are the most")
        self._skip(size)

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._at:
            raise AvroBoundError(f"the record declares {size} bytes, and has {len(self._data) - self._at} more")
        self._at += size

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
            if shift >= 7 * _MAX_VARINT:
                raise AvroBoundError(f"the record has a number of more than {_MAX_VARINT} bytes")

    def _take(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise AvroBoundError(f"the record has more values than {len(self._data)} bytes can hold")


class _Shape:
    """Properties of a schema.

    `is_plain`: the schema is not recursive, its depth is within the limit, and every value takes at least one byte; a union's
    branch number counts for an empty branch. Then the reading time is bounded by the data's size.
    """

    def __init__(self, root: _Type) -> None:
        self._sizes: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()
        self.is_plain = not root.takes_no_byte
        self.has_decimal = False
        self.types, depth = self._look(root)
        self.is_plain &= depth <= MAX_DEPTH

    def _look(self, at: _Type) -> tuple[int, int]:
        """Return the number of types and levels below a type."""
        if id(at) in self._open:
            self.is_plain = False
            return 1, 1
        if id(at) not in self._sizes:
            self._open.add(id(at))
            self.has_decimal |= at.is_decimal
            if at.kind is not _Kind.UNION and any(child.takes_no_byte for child in at.children):
                self.is_plain = False
            below = [self._look(child) for child in at.children]
            self._open.discard(id(at))
            self._sizes[id(at)] = 1 + sum(types for types, _ in below), 1 + max((levels for _, levels in below), default=0)
        return self._sizes[id(at)]


def _compiled(schema: Any, named: dict[str, _Type]) -> _Type:
    if isinstance(schema, list):
        return _Type(_Kind.UNION, children=[_compiled(branch, named) for branch in schema])
    if isinstance(schema, str):
        return named[schema] if schema in named else _primitive(schema)
    kind = schema["type"]
    if kind in _RECORDS:
        made = named[schema["name"]] = _Type(_Kind.RECORD)
        made.children = [_compiled(one["type"], named) for one in schema["fields"]]
        return made
    if kind in ("fixed", "enum"):
        made = _Type(_Kind.VARINT) if kind == "enum" else _Type(_Kind.FIXED, schema["size"], _is_decimal(schema))
        named[schema["name"]] = made
        return made
    if kind == "array":
        return _Type(_Kind.ARRAY, children=[_compiled(schema["items"], named)])
    if kind == "map":
        return _Type(_Kind.MAP, children=[_compiled(schema["values"], named)])
    if kind == "bytes":
        return _Type(_Kind.BYTES, is_decimal=_is_decimal(schema))
    return _compiled(kind, named)


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    return schema.get("logicalType") == "decimal"


def _primitive(name: str) -> _Type:
    if name in _SIZES:
        return _Type(_Kind.FIXED, _SIZES[name])
    if name in _VARINTS:
        return _Type(_Kind.VARINT)
    if name in ("bytes", "string"):
        return _Type(_Kind.BYTES)
    raise AvroBoundError(f"the schema of the record names the type {name!r}, which it does not define")


def bounded_reader(read: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fastavro's `schemaless_reader` in a check of the payload."""
    cache: dict[int, tuple[Any, AvroBounds]] = {}

    def schemaless_reader(payload: Any, writer_schema: Mapping[str, Any] | Sequence[Any], *arguments: Any) -> Any:
        known = cache.get(id(writer_schema))
        if known is None:
            if len(cache) >= _MAX_CACHED:
                cache.clear()
            # The schema is kept too, or its id could be reused by another object.
            known = cache[id(writer_schema)] = writer_schema, AvroBounds(writer_schema)
        known[1].check(payload.getvalue(), payload.tell())
        return read(payload, writer_schema, *arguments)

    return schemaless_reader
