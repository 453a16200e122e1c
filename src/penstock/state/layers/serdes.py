"""The serdes of one store, bound to its changelog topic and to the defaults of the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.columns.serdes import deserialize_column, serialize_column
from penstock.errors import SerializationError, StreamsError
from penstock.serdes.codecs import serialize_boolean, serialize_bytes, serialize_double, serialize_long
from penstock.serdes.contract import as_deserializer, as_serializer, shown_half
from penstock.serdes.guessed import settled
from penstock.serdes.serde import WrappingNullable
from penstock.state.store import StateStoreContext

_EXACT: dict[Any, type] = {serialize_long: int, serialize_double: float, serialize_boolean: bool, serialize_bytes: bytes}


def changelog_topic(context: StateStoreContext, store_name: str) -> str:
    """The changelog topic of a store, or the name it would have: serdes are given it even where nothing is logged."""
    return context.changelog_for(store_name) or f"{context.application_id}-{store_name}-changelog"


class StoreSerdes:
    """Four functions between a store's types and its bytes; None values pass, errors name the store."""

    def __init__(self, context: StateStoreContext, store_name: str, key_serde: Any, value_serde: Any) -> None:
        self.topic = changelog_topic(context, store_name)
        key_serde = _or_default(key_serde, context, "key", store_name)
        value_serde = _or_default(value_serde, context, "value", store_name)
        self._serialize_key, self._serialize_value = as_serializer(key_serde), as_serializer(value_serde)
        self._deserialize_value = as_deserializer(value_serde)
        self.exact_type = _exact_type(self._serialize_value)
        self.raw_key = _serializer(as_serializer(key_serde), self.topic, store_name, "key")
        self.raw_value = _serializer(as_serializer(value_serde), self.topic, store_name, "value")
        self.key_from = _deserializer(as_deserializer(key_serde), self.topic, store_name, "key")
        self.value_from = _deserializer(as_deserializer(value_serde), self.topic, store_name, "value")

    def through_bytes(self, value: Any) -> Any:
        """What comes back of a value that is written and read."""
        return self.value_from(self.raw_value(value))

    def raw_keys(self, keys: Sequence[Any]) -> list[bytes]:
        """Many keys as bytes."""
        try:
            raw = serialize_column(self._serialize_key, self.topic, list(keys))
            if {bytes}.issuperset(map(type, raw)):
                return raw  # type: ignore[return-value]
        except Exception:  # noqa: BLE001, S110 - key by key, the error says which
            pass
        return [self.raw_key(key) for key in keys]

    def raw_values(self, values: Sequence[Any]) -> list[bytes | None]:
        """Many values as bytes; None stays None."""
        try:
            raw = serialize_column(self._serialize_value, self.topic, list(values))
            if {bytes}.issuperset(map(type, raw)):
                return list(raw)
        except Exception:  # noqa: BLE001, S110 - value by value, the error says which
            pass
        return [None if value is None else self.raw_value(value) for value in values]

    def values_from(self, raw: list[bytes]) -> list[Any]:
        """Many values from their bytes."""
        try:
            return list(deserialize_column(self._deserialize_value, self.topic, raw))
        except Exception:  # noqa: BLE001  (value by value, the error says which)
            return [self.value_from(one) for one in raw]


def _exact_type(serializer: Any) -> type | None:
    try:
        return _EXACT.get(serializer)
    except TypeError:  # a user's serde object that does not hash
        return None


def _or_default(serde: Any, context: StateStoreContext, which: str, store_name: str) -> Any:
    if serde is None:
        serde = context.key_serde if which == "key" else context.value_serde
    if serde is None:
        raise StreamsError(
            f"Failed to initialize {which} serdes for store {store_name} of task {context.task_id}: "
            f"give the store a {which} serde or set default.{which}.serde"
        )
    serde = settled(serde, context)
    for half in (as_serializer(serde), as_deserializer(serde)):
        if isinstance(half, WrappingNullable):
            half.set_if_unset(context)
    return serde


def _serializer(serialize: Any, topic: str, store_name: str, which: str) -> Callable[[Any], Any]:
    def to_bytes(value: Any) -> bytes | None:
        try:
            raw = serialize(topic, value)
            return raw if raw is None or type(raw) is bytes else bytes(raw)
        except Exception as exc:
            raise SerializationError(
                f"cannot serialize a {which} of type {type(value).__name__} for store {store_name} (topic {topic}) with "
                f"{shown_half(serialize)}: {exc}. Change the default serdes or give the store serdes that fit"
            ) from exc

    def key_to_bytes(key: Any) -> bytes:
        raw = to_bytes(key)
        if raw is None:
            raise SerializationError(
                f"the key serializer {shown_half(serialize)} of store {store_name} (topic {topic}) gave None "
                f"for a key of type {type(key).__name__}: a key needs bytes"
            )
        return raw

    return key_to_bytes if which == "key" else to_bytes


def _deserializer(deserialize: Any, topic: str, store_name: str, which: str) -> Callable[[Any], Any]:
    def from_bytes(raw: bytes) -> Any:
        try:
            return deserialize(topic, raw)
        except Exception as exc:
            raise SerializationError(
                f"cannot deserialize a {which} of {len(raw)} bytes from store {store_name} (topic {topic}) with "
                f"{shown_half(deserialize)}: {exc}. Change the default serdes or give the store serdes that fit"
            ) from exc

    return from_bytes
