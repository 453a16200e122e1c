"""What the suppress buffer and the buffer of a stream-table join have in common: their interface and their builder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.record import Record, RecordContext
from penstock.serdes.contract import as_deserializer, as_serializer, wants_headers
from penstock.serdes.guessed import or_default
from penstock.serdes.record_headers import HasRecordContext, reading_record_headers, with_record_headers
from penstock.state.store import StateStore, StoreBuilder

K = TypeVar("K")
T = TypeVar("T")
B = TypeVar("B", bound="BufferBuilder[Any]")

MAX_LONG = 2**63 - 1


class Eviction(NamedTuple):
    """A record on its way out of a buffer, with the context it came in with."""

    key: Any
    value: Any
    record_context: RecordContext

    @property
    def record(self) -> Record[Any, Any]:
        """The record as it came in; a record cannot be of before the epoch, so neither can this one."""
        context = self.record_context
        return Record(self.key, self.value, context.timestamp, tuple(context.headers))


class SerdeGetter(HasRecordContext, Protocol):
    """Where the default serdes and the headers of the record come from: the context of a processor."""

    @property
    def key_serde(self) -> Any:
        """The default key serde."""
        ...

    @property
    def value_serde(self) -> Any:
        """The default value serde."""
        ...


class TimeOrderedKeyValueBuffer(StateStore, Generic[K, T]):
    """Records held back, in the order of their time."""

    _serialize_key: Any
    _deserialize_key: Any
    _serialize_value: Any
    _deserialize_value: Any

    def __init__(self, store_name: str, key_serde: Any, value_serde: Any, logging_enabled: bool) -> None:
        self._name = store_name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._logging_enabled = logging_enabled
        self._take_halves()
        self._buffer_size = 0
        self._min_timestamp = MAX_LONG

    @property
    def name(self) -> str:
        return self._name

    def set_serdes_if_null(self, getter: SerdeGetter) -> None:
        """Use the defaults where no serde was given; serdes that take headers are given those of the record being processed."""
        self._key_serde = getter.key_serde if self._key_serde is None else or_default(self._key_serde, getter)
        self._value_serde = getter.value_serde if self._value_serde is None else or_default(self._value_serde, getter)
        self._take_halves()
        halves = (self._serialize_key, self._deserialize_key, self._serialize_value, self._deserialize_value)
        self.serdes_take_headers = any(map(wants_headers, halves))
        self._serialize_key = with_record_headers(self._serialize_key, getter)
        self._deserialize_key = reading_record_headers(self._deserialize_key, getter)
        self._serialize_value = with_record_headers(self._serialize_value, getter)
        self._deserialize_value = reading_record_headers(self._deserialize_value, getter)

    def _take_halves(self) -> None:
        self._serialize_key = as_serializer(self._key_serde)
        self._deserialize_key = as_deserializer(self._key_serde)
        self._serialize_value = as_serializer(self._value_serde)
        self._deserialize_value = as_deserializer(self._value_serde)

    @abstractmethod
    def put(self, time: int, record: Record[K, T], record_context: RecordContext) -> bool:
        """Hold back a record; False if it is too late for that."""

    @abstractmethod
    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Hand out the oldest record and remove it, as long as the predicate holds and there is one."""

    @property
    @abstractmethod
    def num_records(self) -> int:
        """How many records are held back."""

    @property
    @abstractmethod
    def buffer_size(self) -> int:
        """About how many bytes they take."""

    @property
    @abstractmethod
    def min_timestamp(self) -> int:
        """The time of the oldest; the largest there is where the buffer is empty."""


class BufferBuilder(StoreBuilder[Any], Generic[T]):
    """How a buffer is made; it has no cache, whatever is asked."""

    def __init__(self, store_name: str, key_serde: Any, value_serde: Any) -> None:
        super().__init__(store_name)
        self._key_serde = key_serde
        self._value_serde = value_serde

    def with_caching_enabled(self: B) -> B:
        """Does nothing: a buffer is itself a cache."""
        return self
