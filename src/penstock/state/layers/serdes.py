"""The serdes of one store, bound to its changelog topic and to the defaults of the application."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from penstock.batches.serdes import WrittenColumn, deserialize_column, serialize_column
from penstock.errors import SerializationError, StreamsError
from penstock.serdes.codecs import (
    deserialize_json,
    deserialize_long,
    deserialize_string,
    encode_json,
    read_json,
    serialize_boolean,
    serialize_bytes,
    serialize_double,
    serialize_json,
    serialize_long,
    serialize_string,
)
from penstock.serdes.contract import as_deserializer, as_serializer, shown_half, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.record_headers import reading_record_headers, record_headers, with_record_headers
from penstock.serdes.serde import WrappingNullable
from penstock.serdes.typed_json import TypedJsonDeserializer, TypedJsonSerializer
from penstock.state.store import StateStoreContext

_LONG = struct.Struct(">q")
_pack_long, _unpack_long = _LONG.pack, _LONG.unpack

_Half = Callable[[Any], Any]
_Shortcut = Callable[[_Half], _Half]

_EXACT: dict[Any, type] = {serialize_long: int, serialize_double: float, serialize_boolean: bool, serialize_bytes: bytes}


def changelog_topic(context: StateStoreContext, store_name: str) -> str:
    """The changelog topic of a store, or the name it would have: serdes are given it even where nothing is logged."""
    return context.changelog_for(store_name) or f"{context.application_id}-{store_name}-changelog"


class StoreSerdes:
    """Four functions between a store's types and its bytes; None values pass, errors name the store.

    A serde that takes headers is given those of the record being processed.
    """

    def __init__(self, context: StateStoreContext, store_name: str, key_serde: Any, value_serde: Any) -> None:
        self._context = context
        self.topic = changelog_topic(context, store_name)
        key_serde = _or_default(key_serde, context, "key", store_name)
        value_serde = _or_default(value_serde, context, "value", store_name)
        self._serialize_key, self._serialize_value = as_serializer(key_serde), as_serializer(value_serde)
        self._deserialize_value = as_deserializer(value_serde)
        deserialize_key = as_deserializer(key_serde)
        halves = (self._serialize_key, self._serialize_value, deserialize_key, self._deserialize_value)
        self.take_headers = any(map(wants_headers, halves))
        """Whether one of the serdes takes headers: then records come to the store one by one, each with its own."""
        self.exact_type = _exact_type(self._serialize_value)
        self.raw_key = _serializer(self._serialize_key, context, self.topic, store_name, "key")
        self.raw_value = _serializer(self._serialize_value, context, self.topic, store_name, "value")
        self.key_from = _deserializer(deserialize_key, context, self.topic, store_name, "key")
        self.value_from = _deserializer(self._deserialize_value, context, self.topic, store_name, "value")
        self.give: _Half = self.value_from if self.exact_type is None else _same
        """The value that `keep` has kept."""

    def through_bytes(self, value: Any) -> Any:
        """What comes back of a value that is written and read; headers that this adds do not stay with the record."""
        if not self.take_headers:
            return self.value_from(self.raw_value(value))
        record = self._context.record_context
        with record_headers(self._context, () if record is None else record.headers):
            return self.value_from(self.raw_value(value))

    def keep(self, value: Any) -> Any:
        """A value as it is kept between the records of a turn, for `give` to give it as it would come from the store.

        It is kept as its bytes, which no function can change in place, unless it is a number that its serde leaves as it is.
        """
        if value is None:
            return None
        if self.exact_type is None:
            return self.raw_value(value)
        return value if type(value) is self.exact_type else self.through_bytes(value)

    def give_all(self, kept: list[Any]) -> list[Any]:
        """What `give` gives of many; None stays None."""
        if self.exact_type is not None:
            return kept
        there = iter(self.values_from([one for one in kept if one is not None]))
        return [None if one is None else next(there) for one in kept]

    def given(self, kept: list[Any]) -> Sequence[Any]:
        """The same as a column, whose values are made when somebody looks at them."""
        if self.exact_type is not None:
            return kept
        return WrittenColumn(kept, self._serialize_value, self.give_all)

    def keep_all(self, values: Sequence[Any]) -> list[Any]:
        """What `keep` keeps of many values; raises what the serde raises."""
        if self.exact_type is None:
            return self.raw_values(values)
        return [self.keep(value) for value in values]

    def kept_from(self, raw: list[bytes]) -> list[Any]:
        """What `keep` would have kept of values that are bytes."""
        return raw if self.exact_type is None else self.values_from(raw)

    def raw_from_kept(self, kept: Sequence[Any]) -> list[bytes | None]:
        """The bytes of what was kept; None stays None."""
        return list(kept) if self.exact_type is None else self.raw_values(kept)

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
    serde = or_default(serde, context)
    for half in (as_serializer(serde), as_deserializer(serde)):
        if isinstance(half, WrappingNullable):
            half.set_if_unset(context)
    return serde


def _serializer(half: Any, context: StateStoreContext, topic: str, store_name: str, which: str) -> Callable[[Any], Any]:
    serialize = with_record_headers(half, context)

    def to_bytes(value: Any) -> bytes | None:
        try:
            raw = serialize(topic, value)
            return raw if raw is None or type(raw) is bytes else bytes(raw)
        except Exception as exc:
            raise SerializationError(
                f"cannot serialize a {which} of type {type(value).__name__} for store {store_name} (topic {topic}) with "
                f"{shown_half(half)}: {exc}. Change the default serdes or give the store serdes that fit"
            ) from exc

    def key_to_bytes(key: Any) -> bytes:
        raw = to_bytes(key)
        if raw is None:
            raise SerializationError(
                f"the key serializer {shown_half(half)} of store {store_name} (topic {topic}) gave None "
                f"for a key of type {type(key).__name__}: a key needs bytes"
            )
        return raw

    whole = key_to_bytes if which == "key" else to_bytes
    return _plain(_PLAIN_SERIALIZERS, half, whole)


def _typed_json(half: TypedJsonSerializer | TypedJsonDeserializer) -> _Shortcut:
    call = half.call

    def shortcut(whole: _Half) -> _Half:
        def convert(value: Any) -> Any:
            if value is not None:
                try:
                    return call(value)
                except Exception:  # noqa: BLE001, S110 - the whole way says what is wrong
                    pass
            return whole(value)

        return convert

    return shortcut


def _plain(known: dict[Any, _Shortcut], half: Any, whole: _Half) -> _Half:
    """The shortest way there is for the values a built-in serde is made for; all others, and what fails, go the whole way."""
    if type(half) is TypedJsonSerializer or type(half) is TypedJsonDeserializer:
        return _typed_json(half)(whole)
    try:
        shortcut = known.get(half)
    except TypeError:  # a user's serde object that does not hash
        return whole
    return whole if shortcut is None else shortcut(whole)


def _same(kept: Any) -> Any:
    return kept


def _json_to_bytes(whole: _Half) -> _Half:
    def to_bytes(value: Any) -> Any:
        if value is not None:
            try:
                return encode_json(value)
            except (TypeError, ValueError, RecursionError):
                pass
        return whole(value)

    return to_bytes


def _json_from_bytes(whole: _Half) -> _Half:
    def from_bytes(raw: Any) -> Any:
        if type(raw) is bytes:
            try:
                return read_json(raw)
            except (ValueError, RecursionError):
                pass
        return whole(raw)

    return from_bytes


def _string_to_bytes(whole: _Half) -> _Half:
    def to_bytes(value: Any) -> Any:
        if type(value) is str:
            try:
                return value.encode()
            except UnicodeEncodeError:
                pass
        return whole(value)

    return to_bytes


def _string_from_bytes(whole: _Half) -> _Half:
    def from_bytes(raw: Any) -> Any:
        return str(raw, "utf-8", "replace") if type(raw) is bytes else whole(raw)

    return from_bytes


def _long_to_bytes(whole: _Half) -> _Half:
    def to_bytes(value: Any) -> Any:
        if type(value) is int:
            try:
                return _pack_long(value)
            except struct.error:
                pass
        return whole(value)

    return to_bytes


def _long_from_bytes(whole: _Half) -> _Half:
    def from_bytes(raw: Any) -> Any:
        return _unpack_long(raw)[0] if type(raw) is bytes and len(raw) == _LONG.size else whole(raw)

    return from_bytes


_PLAIN_SERIALIZERS: dict[Any, _Shortcut] = {
    serialize_string: _string_to_bytes,
    serialize_long: _long_to_bytes,
    serialize_json: _json_to_bytes,
}
_PLAIN_DESERIALIZERS: dict[Any, _Shortcut] = {
    deserialize_string: _string_from_bytes,
    deserialize_long: _long_from_bytes,
    deserialize_json: _json_from_bytes,
}


def _deserializer(half: Any, context: StateStoreContext, topic: str, store_name: str, which: str) -> Callable[[Any], Any]:
    deserialize = reading_record_headers(half, context)

    def from_bytes(raw: bytes) -> Any:
        try:
            return deserialize(topic, raw)
        except Exception as exc:
            raise SerializationError(
                f"cannot deserialize a {which} of {len(raw)} bytes from store {store_name} (topic {topic}) with "
                f"{shown_half(half)}: {exc}. Change the default serdes or give the store serdes that fit"
            ) from exc

    return _plain(_PLAIN_DESERIALIZERS, half, from_bytes)
