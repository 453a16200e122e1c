"""What the right table of a foreign-key join answers, and its bytes on the response topic.

1 bit no hash, 7 bits version | 16 bytes hash, where there is one | the right row's value, where there is one
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.batches.serdes import ColumnDeserializer, ColumnSerializer, deserialize_column, serialize_column
from penstock.errors import SerializationError
from penstock.operators.joins.foreign_key.subscription_wrapper import NO_HASH, Hash
from penstock.serdes.contract import call_with_headers, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.serde import Deserializer, Serde, Serializer, WrappingNullable, as_deserializer, as_serializer

CURRENT_VERSION = 0

_HASH = struct.Struct(">qq")
_HEAD = struct.Struct(">Bqq")


class SubscriptionResponseWrapper(NamedTuple):
    """The hash of the left row that was asked for, the right row's value, and the partition to answer to (not written)."""

    original_value_hash: Hash | None
    foreign_value: Any
    primary_partition: int | None = None
    version: int = CURRENT_VERSION


class SubscriptionResponseWrapperSerializer(WrappingNullable, ColumnSerializer):
    """The bytes of a response."""

    __slots__ = ("inner",)

    def __init__(self, inner: Serializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a serializer for the right table's values the default value serde's is used."""
        self.inner = as_serializer(getter.value_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the serializer of the right table's values takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: SubscriptionResponseWrapper, headers: Any = None) -> bytes:
        """Version, hash and value."""
        if data.version != CURRENT_VERSION:
            raise SerializationError(f"a response of version {data.version} cannot be written to {topic}")
        if data.original_value_hash is None:
            head = bytes((data.version | NO_HASH,))
        else:
            head = bytes((data.version,)) + _HASH.pack(*data.original_value_hash)
        if data.foreign_value is None:
            return head
        assert self.inner is not None, "set_if_unset was not called"
        return head + (call_with_headers(self.inner, topic, data.foreign_value, headers) or b"")

    def serialize_all(self, topic: str, values: Sequence[SubscriptionResponseWrapper]) -> list[bytes]:
        """The same of many; raises where one is not of the current version."""
        if any(data.version != CURRENT_VERSION for data in values):
            raise ValueError("not only responses of the current version")
        there = [data.foreign_value for data in values if data.foreign_value is not None]
        written = iter(serialize_column(self.inner, topic, there) if there else ())
        pack, without_hash = _HEAD.pack, bytes((CURRENT_VERSION | NO_HASH,))
        return [
            (without_hash if hashed is None else pack(CURRENT_VERSION, *hashed))
            + (b"" if value is None else next(written) or b"")
            for hashed, value, _, _ in values
        ]


class SubscriptionResponseWrapperDeserializer(WrappingNullable, ColumnDeserializer):
    """Reads a response."""

    __slots__ = ("inner",)

    def __init__(self, inner: Deserializer | None) -> None:
        self.inner = inner

    def set_if_unset(self, getter: Any) -> None:
        """Without a deserializer for the right table's values the default value serde's is used."""
        self.inner = as_deserializer(getter.value_serde) if self.inner is None else or_default(self.inner, getter)

    @property
    def wants_headers(self) -> bool:
        """Whether the deserializer of the right table's values takes headers."""
        return wants_headers(self.inner)

    def __call__(self, topic: str, data: bytes | None, headers: Any = None) -> SubscriptionResponseWrapper | None:
        """The response; null bytes stay None."""
        if data is None:
            return None
        assert self.inner is not None, "set_if_unset was not called"
        try:
            version, no_hash = data[0] & 0x7F, data[0] & NO_HASH
            hashed = None if no_hash else _HASH.unpack_from(data, 1)
            if version != CURRENT_VERSION:
                raise ValueError(f"version {version}")
        except (IndexError, ValueError, struct.error) as exc:
            raise SerializationError(f"what was read from {topic} is not a response of a foreign-key join: {exc}") from exc
        value = data[1 if no_hash else 1 + _HASH.size :]
        foreign_value = call_with_headers(self.inner, topic, value, headers) if value else None
        return SubscriptionResponseWrapper(hashed, foreign_value, None, version)

    def deserialize_all(self, topic: str, data: Sequence[bytes | None]) -> list[SubscriptionResponseWrapper]:
        """The same of many; raises where one is not of the current version, or has no hash."""
        if not {bytes}.issuperset(map(type, data)):
            raise ValueError("not only responses")
        heads = list(map(_HEAD.unpack_from, data))  # type: ignore[arg-type]
        if not {CURRENT_VERSION}.issuperset(head[0] for head in heads):
            raise ValueError("not only responses of the current version")
        raw = [one[_HEAD.size :] for one in data]  # type: ignore[index]
        there = [value for value in raw if value]
        read = iter(deserialize_column(self.inner, topic, there) if there else ())
        return [
            SubscriptionResponseWrapper((high, low), next(read) if value else None, None, version)
            for (version, high, low), value in zip(heads, raw)
        ]


class SubscriptionResponseWrapperSerde(Serde[SubscriptionResponseWrapper]):
    """The serde of responses around the serde of the right table's values."""

    __slots__ = ()

    def __init__(self, foreign_value_serde: Any) -> None:
        super().__init__(
            SubscriptionResponseWrapperSerializer(as_serializer(foreign_value_serde)),
            SubscriptionResponseWrapperDeserializer(as_deserializer(foreign_value_serde)),
            f"SubscriptionResponseWrapperSerde({foreign_value_serde!r})",
        )
