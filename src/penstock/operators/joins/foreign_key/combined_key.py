"""The key of a subscription: which row of the left table is interested in which row of the right one.

In the subscription store it is `int32 length of the foreign key + foreign key + primary key`, so that all subscriptions of one
foreign key lie together.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Sequence
from operator import add
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.batches.serdes import serialize_column
from penstock.errors import SerializationError
from penstock.operators.context import OperatorContext
from penstock.serdes.contract import wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.record_headers import reading_record_headers, with_record_headers
from penstock.serdes.serde import Deserializer, Serializer, as_deserializer, as_serializer

KRight = TypeVar("KRight")
KLeft = TypeVar("KLeft")

TopicSupplier = str | Callable[[], str]
"""A topic's name, or a function that tells it once the application's id is known."""

_LENGTH = struct.Struct(">i")


class CombinedKey(NamedTuple):
    """A foreign key and the primary key of the row that refers to it; the foreign key may be None."""

    foreign_key: Any
    primary_key: Any


class CombinedKeySchema(Generic[KRight, KLeft]):
    """Turns combined keys into bytes and back.

    >>> from penstock.serdes.serde import Serdes
    >>> schema = CombinedKeySchema("fk", Serdes.string(), "pk", Serdes.string())
    >>> schema.to_bytes("rhs1", "lhs1").hex(" ", 4)
    '00000004 72687331 6c687331'
    """

    def __init__(
        self,
        foreign_key_serde_topic: TopicSupplier,
        foreign_key_serde: Any,
        primary_key_serde_topic: TopicSupplier,
        primary_key_serde: Any,
    ) -> None:
        self._foreign_key_topic = foreign_key_serde_topic
        self._primary_key_topic = primary_key_serde_topic
        self._foreign_key_serializer = as_serializer(foreign_key_serde)
        self._foreign_key_deserializer = as_deserializer(foreign_key_serde)
        self._primary_key_serializer = as_serializer(primary_key_serde)
        self._primary_key_deserializer = as_deserializer(primary_key_serde)
        self.takes_headers = False
        """Whether a serde takes headers; known of the schema of a task."""

    def of_task(self, context: OperatorContext) -> CombinedKeySchema[KRight, KLeft]:
        """The schema for one task, with the default key serde where none was given.

        Serdes that take headers are given those of the record being processed.
        """
        schema = copy.copy(self)
        schema._take_serdes(context)
        return schema

    def _take_serdes(self, context: OperatorContext) -> None:
        write_foreign = or_default(self._foreign_key_serializer, context) or as_serializer(context.key_serde)
        read_foreign = or_default(self._foreign_key_deserializer, context) or as_deserializer(context.key_serde)
        write_primary = or_default(self._primary_key_serializer, context) or as_serializer(context.key_serde)
        read_primary = or_default(self._primary_key_deserializer, context) or as_deserializer(context.key_serde)
        self.takes_headers = any(map(wants_headers, (write_foreign, read_foreign, write_primary, read_primary)))
        self._foreign_key_serializer = with_record_headers(write_foreign, context)
        self._foreign_key_deserializer = reading_record_headers(read_foreign, context)
        self._primary_key_serializer = with_record_headers(write_primary, context)
        self._primary_key_deserializer = reading_record_headers(read_primary, context)

    def to_bytes(self, foreign_key: KRight, primary_key: KLeft) -> bytes:
        """The key of a subscription in the store."""
        return self.prefix_bytes(foreign_key) + _serialized(
            self._primary_key_serializer, self._primary_key_topic, primary_key, "primary"
        )

    def from_bytes(self, data: bytes) -> CombinedKey:
        """The keys that `to_bytes` put together; raises SerializationError where there are none."""
        length = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else -1
        split = _LENGTH.size + length
        if not _LENGTH.size <= split <= len(data):
            raise SerializationError(
                f"{len(data)} bytes in the store of a foreign-key join's subscriptions are not the key of one: "
                f"a foreign key of {length} bytes does not fit in"
            )
        foreign_key = _deserialized(self._foreign_key_deserializer, self._foreign_key_topic, data[_LENGTH.size : split])
        return CombinedKey(foreign_key, _deserialized(self._primary_key_deserializer, self._primary_key_topic, data[split:]))

    def to_bytes_column(self, foreign_keys: Sequence[KRight], primary_keys: Sequence[KLeft]) -> list[bytes]:
        """The same of many; raises where one is null."""
        of_rows = serialize_column(self._primary_key_serializer, topic_name(self._primary_key_topic), primary_keys)
        return list(map(add, self.prefix_bytes_column(foreign_keys), of_rows))

    def prefix_bytes_column(self, foreign_keys: Sequence[KRight]) -> list[bytes]:
        """What the keys of all subscriptions of each begin with; raises where one is null."""
        column = serialize_column(self._foreign_key_serializer, topic_name(self._foreign_key_topic), foreign_keys)
        pack = _LENGTH.pack
        return [pack(len(data)) + data for data in column]  # type: ignore[arg-type, operator]

    def prefix_bytes(self, foreign_key: KRight) -> bytes:
        """What the keys of all subscriptions of a foreign key begin with."""
        data = _serialized(self._foreign_key_serializer, self._foreign_key_topic, foreign_key, "foreign")
        return _LENGTH.pack(len(data)) + data


def topic_name(topic: TopicSupplier) -> str:
    """The name itself."""
    return topic if isinstance(topic, str) else topic()


def _serialized(serializer: Serializer | None, topic: TopicSupplier, key: Any, which: str) -> bytes:
    assert serializer is not None, "of_task was not called"
    data = serializer(topic_name(topic), key)
    if data is None:
        raise TypeError(f"the {which} key of a foreign-key join cannot be null here: {key!r}")
    return data


def _deserialized(deserializer: Deserializer | None, topic: TopicSupplier, data: bytes) -> Any:
    assert deserializer is not None, "of_task was not called"
    return deserializer(topic_name(topic), data)
