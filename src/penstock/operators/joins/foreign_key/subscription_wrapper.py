"""What the left table of a foreign-key join sends to the right one, and its bytes on the subscription topic.

1 bit no hash, 7 bits version | 1 byte instruction | 16 bytes hash, if any | primary key | int32 partition (version 1)
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.batches.serdes import ColumnDeserializer, ColumnSerializer, deserialize_column, serialize_column
from penstock.errors import SerializationError
from penstock.operators.joins.foreign_key.combined_key import TopicSupplier, topic_name
from penstock.serdes.contract import call_with_headers, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Deserializer, Serde, Serializer, WrappingNullable, as_deserializer, as_serializer

Hash = tuple[int, int]

CURRENT_VERSION = 1
NO_HASH = 0x80

_HASH = struct.Struct(">qq")
_PARTITION = struct.Struct(">i")
_HEAD = struct.Struct(">BBqq")

# Applications of before 3.4 do not know version 1; while they run beside this one, version 0 is written.
_UPGRADE_FROM_VERSION_0 = frozenset(("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3"))


class Instruction(enum.IntEnum):
    """What the right side does with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Remove it; the left side gets its answer from elsewhere."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Remove it and answer null."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Keep it and answer with the right row, or with null where there is none."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Keep it and answer only where there is a right row."""


_INSTRUCTIONS = tuple(Instruction)


class SubscriptionWrapper(NamedTuple):
    """A subscription: the hash of the left row it belongs to, what to do, and where the answer goes."""

    hash: Hash | None
    instruction: Instruction
    primary_key: Any
    version: int = CURRENT_VERSION
    primary_partition: int | None = None


class SubscriptionWrapperSerializer(WrappingNullable, ColumnSerializer):
    """The bytes of a subscription."""

    __slots__ = ("_primary_key_topic", "_upgrade_from_version_0", "inner")

    def __init__(self, primary_key_topic: TopicSupplier, inner: Serializer | None) -> None:
        self._primary_key_topic = primary_key_topic
        self._upgrade_from_version_0 = False
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a serializer for the primary key the default key serde's is used."""
        self.inner = as_serializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Write version 0 while `upgrade.from` names a version that knows no other."""
        self._upgrade_from_version_0 = configs.get("upgrade.from") in _UPGRADE_FROM_VERSION_0

    @property
    def wants_headers(self) -> bool:
        """Whether the serializer of the primary key takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: SubscriptionWrapper, headers: Any = None) -> bytes:
        """The bytes in the version that the subscription says."""
        version = 0 if self._upgrade_from_version_0 else data.version
        if version not in (0, CURRENT_VERSION):
            raise SerializationError(f"a subscription of version {version} cannot be written to {topic}")
        assert self.inner is not None, "set_if_unset was not called"
        primary_key: bytes | None = call_with_headers(self.inner, topic_name(self._primary_key_topic), data.primary_key, headers)
        if primary_key is None:
            raise SerializationError(f"a subscription for {topic} needs a primary key, got {data.primary_key!r}")
        if data.hash is None:
            body = bytes((version | NO_HASH, data.instruction)) + primary_key
        else:
            body = bytes((version, data.instruction)) + _HASH.pack(*data.hash) + primary_key
        if version == 0:
            return body
        if data.primary_partition is None:
            raise SerializationError(f"a subscription of version {version} for {topic} needs the primary partition")
        return body + _PARTITION.pack(data.primary_partition)

    def serialize_all(self, topic: str, values: Sequence[SubscriptionWrapper]) -> list[bytes]:
        """The same of many; raises where one is not of the current version."""
        if self._upgrade_from_version_0 or any(data.version != CURRENT_VERSION for data in values):
            raise ValueError("not only subscriptions of the current version")
        keys: Sequence[Any] = serialize_column(
            self.inner, topic_name(self._primary_key_topic), [data.primary_key for data in values]
        )
        if not {bytes}.issuperset(map(type, keys)):
            raise ValueError("not all have a primary key")
        pack_head, pack_partition, without_hash = _HEAD.pack, _PARTITION.pack, CURRENT_VERSION | NO_HASH
        heads = [
            bytes((without_hash, told)) if hashed is None else pack_head(CURRENT_VERSION, told, *hashed)
            for hashed, told, _, _, _ in values
        ]
        return [head + key + pack_partition(data.primary_partition) for head, key, data in zip(heads, keys, values)]


class SubscriptionWrapperDeserializer(WrappingNullable, ColumnDeserializer):
    """Reads a subscription of either version."""

    __slots__ = ("_primary_key_topic", "inner")

    def __init__(self, primary_key_topic: TopicSupplier, inner: Deserializer | None) -> None:
        self._primary_key_topic = primary_key_topic
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a deserializer for the primary key the default key serde's is used."""
        self.inner = as_deserializer(getter.key_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the deserializer of the primary key takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> SubscriptionWrapper | None:
        """The subscription; null bytes stay None."""
        if data is None:
            return None
        assert self.inner is not None, "set_if_unset was not called"
        try:
            version, no_hash = data[0] & 0x7F, data[0] & NO_HASH
            instruction = Instruction(data[1])
            hashed = None if no_hash else _HASH.unpack_from(data, 2)
            start = 2 if no_hash else 2 + _HASH.size
            end = len(data) - _PARTITION.size if version > 0 else len(data)
            if version > CURRENT_VERSION or end < start:
                raise ValueError(f"version {version}, {len(data)} bytes")
            partition = _PARTITION.unpack_from(data, end)[0] if version > 0 else None
        except (IndexError, ValueError, struct.error) as exc:
            raise SerializationError(f"what was read from {topic} is not a subscription of a foreign-key join: {exc}") from exc
        primary_key = call_with_headers(self.inner, topic_name(self._primary_key_topic), data[start:end], headers)
        return SubscriptionWrapper(hashed, instruction, primary_key, version, partition)

    def deserialize_all(self, topic: str, data: Sequence[bytes | None]) -> list[SubscriptionWrapper]:
        """The same of many; raises where one is not of the current version, or has no hash."""
        if not {bytes}.issuperset(map(type, data)):
            raise ValueError("not only subscriptions")
        heads = list(map(_HEAD.unpack_from, data))  # type: ignore[arg-type]
        if not {CURRENT_VERSION}.issuperset(head[0] for head in heads):
            raise ValueError("not only subscriptions of the current version")
        if min(map(len, data), default=_HEAD.size) < _HEAD.size + _PARTITION.size:  # type: ignore[arg-type]
            raise ValueError("too short for a subscription")
        raw_keys = [one[_HEAD.size : -_PARTITION.size] for one in data]  # type: ignore[index]
        keys = deserialize_column(self.inner, topic_name(self._primary_key_topic), raw_keys)
        unpack_partition = _PARTITION.unpack
        return [
            SubscriptionWrapper((high, low), _INSTRUCTIONS[told], key, version, unpack_partition(one[-_PARTITION.size :])[0])  # type: ignore[index]
            for (version, told, high, low), key, one in zip(heads, keys, data)
        ]


class SubscriptionWrapperSerde(Serde[SubscriptionWrapper]):
    """The serde of subscriptions around the serde of the left table's keys."""

    __slots__ = ()

    def __init__(self, primary_key_serialization_pseudo_topic: TopicSupplier, primary_key_serde: Any) -> None:
        super().__init__(
            SubscriptionWrapperSerializer(primary_key_serialization_pseudo_topic, as_serializer(primary_key_serde)),
            SubscriptionWrapperDeserializer(primary_key_serialization_pseudo_topic, as_deserializer(primary_key_serde)),
            f"SubscriptionWrapperSerde({primary_key_serde!r})",
        )
