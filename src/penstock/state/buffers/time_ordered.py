"""What the suppress buffer and the buffer of a stream-table join have in common: their interface and their builder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.record import Record, RecordContext
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
        return Record(self.key, self.value, context.timestamp, context.headers)


class SerdeGetter(Protocol):
    """Where the default serdes come from: the context of a processor."""

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

    @abstractmethod
    def set_serdes_if_null(self, getter: SerdeGetter) -> None:
        """Use the defaults where no serde was given."""

    @abstractmethod
    def put(self, time: int, record: Record[K, T], record_context: RecordContext) -> bool:
        """RebalancePause a record back; False where it is too late for that."""

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
        self._store_name = store_name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._logging_enabled = True
        self._log_config: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store_name

    @property
    def logging_enabled(self) -> bool:
        """Whether changes go to a changelog topic."""
        return self._logging_enabled

    @property
    def caching_enabled(self) -> bool:
        """Never: a buffer is itself a cache."""
        return False

    @property
    def log_config(self) -> Mapping[str, str]:
        """The user's configuration of the changelog topic."""
        return dict(self._log_config) if self._logging_enabled else {}

    def with_logging_enabled(self: B, topic_config: Mapping[str, Any] | None = None) -> B:
        """Write changes to a changelog topic with this configuration."""
        self._logging_enabled = True
        self._log_config = {key: str(value) for key, value in (topic_config or {}).items()}
        return self

    def with_logging_disabled(self: B) -> B:
        """Keep no changelog: what is held back is lost with the task."""
        self._logging_enabled = False
        return self

    def with_caching_enabled(self: B) -> B:
        """Does nothing."""
        return self

    def with_caching_disabled(self: B) -> B:
        """Does nothing."""
        return self
