"""Queries of a running application, for `KafkaStreams`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.client.queries.local_stores import LocalPartition, LocalStores
from penstock.client.queries.locations import Locations, Partitioner
from penstock.client.state import State
from penstock.dsl.options import Materialized
from penstock.errors import (
    InvalidStateStoreError,
    InvalidStateStorePartitionError,
    StateStoreMigratedError,
    StreamsNotStartedError,
    StreamsRebalancingError,
    StreamsStoppedError,
)
from penstock.query.metadata import KeyQueryMetadata, StreamsMetadata
from penstock.query.position import PositionBound
from penstock.query.request import StateQueryRequest
from penstock.query.result import FailureReason, QueryResult, StateQueryResult
from penstock.runtime.queries.execution import run_query
from penstock.runtime.queries.opening import ReadableStore
from penstock.runtime.queries.parameters import QueryableStoreType, QueryableStoreTypes, StoreQueryParameters
from penstock.runtime.queries.partition import StorePartition
from penstock.runtime.queries.views import VIEWS
from penstock.state.value_conversion import converter


class Queries:
    """Answers queries from this instance's committed state, and locates other state."""

    def __init__(self, stores: LocalStores, locations: Callable[[], Locations], state: Callable[[], State]) -> None:
        self.stores = stores
        self._locations = locations
        self._state = state

    def check_running(self) -> None:
        """Raise unless the application is running."""
        check_running(self._state())

    # -- views ---------------------------------------------------------------------------------------------------------

    def store(self, parameters: str | Materialized[Any, Any] | StoreQueryParameters[Any]) -> Any:
        """Return a read-only view of a store. Each call of the view looks up its partitions."""
        check_running(self._state())
        if isinstance(parameters, Materialized):
            parameters = self._key_value_store(parameters)
        elif isinstance(parameters, str):
            parameters = StoreQueryParameters(parameters, QueryableStoreType(self.stores.store(parameters).kind))
        if not isinstance(parameters, StoreQueryParameters):
            raise TypeError(f"store() takes a name, a Materialized or StoreQueryParameters(name, type), not {parameters!r}")
        store = self.stores.store(parameters.store_name)
        asked = parameters.queryable_store_type
        try:
            if asked.kind != store.kind:
                raise InvalidStateStoreError(f"it is a {store.kind.replace('_', '-')} store")
            convert = converter(store.values, asked.values, store.kind)
        except InvalidStateStoreError as exc:
            raise InvalidStateStoreError(
                f"Cannot get state store {store.name} because the queryable store type {asked} does not accept it: {exc}"
            ) from None
        same = store.values == asked.values
        home = None if self.stores.is_global(store.name) else partial(self._home_of, store)
        return VIEWS[store.kind](store.name, lambda: self._readable(parameters), None if same else convert, home)

    def _key_value_store(self, materialized: Materialized[Any, Any]) -> StoreQueryParameters[Any]:
        name = materialized.store_name
        if name is None:
            raise ValueError(f"store() takes a Materialized with the name of its store, not {materialized!r}")
        kind = self.stores.store(name).kind
        if kind != "key_value":
            raise InvalidStateStoreError(
                f"Cannot get state store {name} by its Materialized: it is a {kind} store, and only key-value stores are read "
                f'that way. Use store("{name}").'
            )
        return StoreQueryParameters(name, QueryableStoreTypes.key_value_store())

    def _home_of(self, store: ReadableStore, key: Any) -> int:
        try:
            return self._locations().task_of_key(store.name, key, store.key_serde).partition
        except Exception:  # noqa: BLE001 - reading the partitions raises the error
            return -1

    def _readable(self, parameters: StoreQueryParameters[Any]) -> Sequence[StorePartition]:
        check_running(self._state())
        name, partition, stale = parameters.store_name, parameters.partition, parameters.stale_stores
        found = self.stores.partitions(name)
        here = [local for local in found if partition is None or local.partition == partition or self.stores.is_global(name)]
        if not stale:
            self._refuse_unready(name, here)
            here = [local for local in here if local.running]
        if here:
            return [local.reader for local in here]
        if partition is not None:
            raise InvalidStateStorePartitionError(
                f"The specified partition {partition} for store {name} does not exist here; this instance has "
                f"{', '.join(str(local.partition) for local in found) or 'none'}"
            )
        raise StateStoreMigratedError(
            f"The state store, {name}, may have migrated to another instance: ask streams_metadata_for_store({name!r})"
        )

    def _refuse_unready(self, name: str, here: Sequence[LocalPartition]) -> None:
        unready = [local.partition for local in here if local.active and not local.running]
        if unready or self._state() is State.REBALANCING:
            raise StreamsRebalancingError(
                f"Cannot get state store {name} because its tasks are being opened or restored, not RUNNING. Try again later, "
                "or read the available state with stale_stores=True"
            )

    # -- queries -------------------------------------------------------------------------------------------------------

    def query(self, request: StateQueryRequest[Any]) -> StateQueryResult[Any]:
        """Run a query on the local partitions. Each returns its own result."""
        if not isinstance(request, StateQueryRequest):
            raise TypeError(f"query() takes StateQueryRequest.in_store(name).with_query(query), not {request!r}")
        name = request.store_name
        self.stores.queryable(name)
        check_running(self._state())
        result: StateQueryResult[Any] = StateQueryResult()
        if self.stores.is_global(name):
            reader = self.stores.partitions(name)[0].reader
            result.global_result = run_query(reader, request.query, PositionBound.unbounded(), request.execution_info_enabled)
            return result
        for local in self.stores.partitions(name):
            if request.asks(local.partition):
                result.partition_results[local.partition] = self._answer(local, request)
        count = len(self.stores.tasks_of(name))
        for partition in sorted(request.partitions or ()):
            if partition not in result.partition_results:
                result.partition_results[partition] = _not_here(partition, count)
        return result

    def _answer(self, local: LocalPartition, request: StateQueryRequest[Any]) -> QueryResult[Any]:
        if request.is_require_active and not local.running:
            return QueryResult.for_failure(
                FailureReason.NOT_ACTIVE,
                "Query requires a running active task, but partition was not running and "
                f"{'active' if local.active else 'not active'}.",
            )
        bound = PositionBound.unbounded() if request.is_require_active else request.position_bound
        return run_query(local.reader, request.query, bound, request.execution_info_enabled)

    # -- locations -----------------------------------------------------------------------------------------------------

    def metadata_for_key(
        self, name: str, key: Any, key_serializer: Any, partitioner: Partitioner | None = None
    ) -> KeyQueryMetadata:
        """Return the location of a key."""
        check_running(self._state())
        if key is None:
            raise ValueError("key cannot be None: pass a key of the store")
        self.stores.store(name)
        return self._locations().for_key(name, key, key_serializer, partitioner)

    def metadata_for_store(self, name: str) -> list[StreamsMetadata]:
        """Return the instances with a part of a store."""
        check_running(self._state())
        self.stores.store(name)
        return self._locations().for_store(name)

    def metadata_for_all(self) -> list[StreamsMetadata]:
        check_running(self._state())
        return self._locations().all()

    @property
    def locations(self) -> Locations:
        return self._locations()

    def close(self) -> None:
        self.stores.close()


def check_running(state: State) -> None:
    """Raise unless the application is running."""
    if state.has_not_started:
        raise StreamsNotStartedError("KafkaStreams has not been started, you can retry after calling start()")
    if not state.is_running_or_rebalancing:
        raise StreamsStoppedError(
            f"KafkaStreams is not running. State is {state.name}; this instance can no longer serve queries"
        )


def _not_here(partition: int, count: int) -> QueryResult[Any]:
    if not 0 <= partition < count:
        return QueryResult.for_failure(
            FailureReason.DOES_NOT_EXIST, f"The store has {count} partitions: there is no partition {partition}."
        )
    return QueryResult.for_failure(FailureReason.NOT_PRESENT, "The requested partition was not present at the time of the query.")
