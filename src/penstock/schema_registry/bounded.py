"""confluent-kafka's serializers and deserializers with bounds on what they read.

confluent-kafka has no hook between the decryption of a payload and its reading, so the functions that it reads with are replaced.
They are replaced in subclasses: classes that the user makes of confluent-kafka stay as they are.
"""

from __future__ import annotations

import io
from types import FunctionType
from typing import Any, Final, NoReturn

from penstock.errors import ConfigError
from penstock.schema_registry.avro_bounds import bounded_reader

_MAX_INDEX_BYTES: Final = 1_000


def avro_deserializer(deserializer: type[Any]) -> type[Any]:
    """Check the depth, number of values and size of decimals of a record before fastavro reads it."""
    from fastavro import schemaless_reader

    return _with_global(deserializer, "schemaless_reader", bounded_reader(schemaless_reader))


def protobuf_deserializer(deserializer: type[Any]) -> type[Any]:
    """Bound the list of numbers before the message: one number of 1 MB takes hours.

    The message itself is bounded by protobuf: 100 levels, and every value takes a byte.
    """
    from confluent_kafka.schema_registry.serde import SchemaId

    class BoundedSchemaId(SchemaId):  # type: ignore[misc]  # confluent-kafka is imported where it is used
        @staticmethod
        def _read_index_array(buf: io.BytesIO, zigzag: bool = True) -> Any:
            begin = buf.tell()
            head = io.BytesIO(buf.read(_MAX_INDEX_BYTES))
            found = SchemaId._read_index_array(head, zigzag)
            buf.seek(begin + head.tell())
            return found

    return _with_global(deserializer, "SchemaId", BoundedSchemaId)


def json_schema_half(half: type[Any]) -> type[Any]:
    """Never fetch a `$ref`: schemas come from the application and from the registry alone."""
    import referencing
    from referencing.exceptions import NoSuchResource

    registry_of: Any = referencing.Registry

    def refuse(uri: str) -> NoReturn:
        raise NoSuchResource(uri)

    class WithoutFetching(half):  # type: ignore[misc]  # confluent-kafka is imported where it is used
        def _get_parsed_schema(self, schema: Any) -> Any:
            known = None if schema is None else self._parsed_schemas.get_parsed_schema(schema)
            if schema is None or known is not None:
                return known or (None, None)
            parsed, registry = super()._get_parsed_schema(schema)
            found = parsed, registry_of(retrieve=refuse).with_resources(registry.items())
            self._parsed_schemas.set(schema, found)
            return found

    return WithoutFetching


def _with_global(base: type[Any], name: str, replacement: Any) -> type[Any]:
    """A subclass whose methods use the replacement where those of the base use the global of this name."""
    methods = {
        key: method for key, method in vars(base).items() if isinstance(method, FunctionType) and name in method.__code__.co_names
    }
    if not methods:
        raise ConfigError(
            f"confluent-kafka's {base.__name__} cannot be bounded: it does not use {name}. Install another confluent-kafka of 2.x"
        )
    replaced = {}
    for key, method in methods.items():
        replaced[key] = made = FunctionType(
            method.__code__, {**method.__globals__, name: replacement}, method.__name__, method.__defaults__, method.__closure__
        )
        made.__kwdefaults__ = method.__kwdefaults__
    return type(base.__name__, (base,), replaced)
