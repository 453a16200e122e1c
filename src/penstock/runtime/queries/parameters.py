"""Names a store to read, the type of its view, and its partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.java_names import JavaNames
from penstock.runtime.queries.views import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyVersionedKeyValueStore,
    ReadOnlyWindowStore,
)
from penstock.state.store import ValueAndTimestamp
from penstock.state.value_timestamp_headers import ValueTimestampHeaders

T = TypeVar("T")


@dataclass(frozen=True)
class QueryableStoreType(Generic[T]):
    """A kind of store that can be read; made by `QueryableStoreTypes`.

    `kind` is what the store holds, `values` how its values are shown: plain, timestamped or with headers.
    """

    kind: str
    values: str = "plain"

    def __str__(self) -> str:
        prefix = {"plain": "", "timestamped": "timestamped_", "headers": "timestamped_"}[
            self.values if self.kind != "session" else "plain"
        ]
        names = {
            "key_value": "key_value_store",
            "window": "window_store",
            "session": "session_store",
            "versioned": "versioned_key_value_store",
        }
        return f"QueryableStoreTypes.{prefix}{names[self.kind]}{'_with_headers' if self.values == 'headers' else ''}()"


class QueryableStoreTypes(JavaNames):
    """The kinds of stores that can be read.

    >>> str(QueryableStoreTypes.timestamped_window_store())
    'QueryableStoreTypes.timestamped_window_store()'
    """

    @staticmethod
    def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
        """Keys to values; a timestamped store is shown without its timestamps."""
        return QueryableStoreType("key_value")

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueAndTimestamp[Any]]]:
        """Keys to `ValueAndTimestamp`."""
        return QueryableStoreType("key_value", "timestamped")

    @staticmethod
    def timestamped_key_value_store_with_headers() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueTimestampHeaders[Any]]]:
        """Keys to values with timestamp and headers."""
        return QueryableStoreType("key_value", "headers")

    @staticmethod
    def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
        """Windows of keys to values; a timestamped store is shown without its timestamps."""
        return QueryableStoreType("window")

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueAndTimestamp[Any]]]:
        """Windows of keys to `ValueAndTimestamp`."""
        return QueryableStoreType("window", "timestamped")

    @staticmethod
    def timestamped_window_store_with_headers() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueTimestampHeaders[Any]]]:
        """Windows of keys to values with timestamp and headers."""
        return QueryableStoreType("window", "headers")

    @staticmethod
    def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Sessions of keys to aggregates."""
        return QueryableStoreType("session")

    @staticmethod
    def session_store_with_headers() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Sessions of keys to aggregates with headers."""
        return QueryableStoreType("session", "headers")

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType[ReadOnlyVersionedKeyValueStore[Any, Any]]:
        """Keys to versions of their values; beyond Kafka Streams, which has queries for them only."""
        return QueryableStoreType("versioned")


@dataclass(frozen=True)
class StoreQueryParameters(JavaNames, Generic[T]):
    """What `KafkaStreams.store` is given.

    >>> StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()).with_partition(1).enable_stale_stores().stale_stores
    True
    """

    store_name: str
    queryable_store_type: QueryableStoreType[T]
    partition: int | None = None
    stale_stores: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.queryable_store_type, QueryableStoreType):
            raise TypeError(
                f"the type of store {self.store_name} is {self.queryable_store_type!r}: give one of QueryableStoreTypes, for "
                "example QueryableStoreTypes.key_value_store()"
            )

    @classmethod
    def from_name_and_type(cls, store_name: str, queryable_store_type: QueryableStoreType[T]) -> StoreQueryParameters[T]:
        """All local active partitions of a store."""
        return cls(store_name, queryable_store_type)

    def with_partition(self, partition: int) -> StoreQueryParameters[T]:
        """Only this partition."""
        return replace(self, partition=partition)

    def enable_stale_stores(self) -> StoreQueryParameters[T]:
        """Also standbys and stores that are being restored."""
        return replace(self, stale_stores=True)
