"""The methods of `KafkaStreams` that query state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.client.client_life import ClientLife
from penstock.client.notebook import LiveDisplay
from penstock.client.queries.locations import Partitioner
from penstock.client.queries.queries import Queries, check_running
from penstock.dsl.options import Materialized
from penstock.errors import StreamsStoppedError
from penstock.java_names import JavaNames
from penstock.query.metadata import KeyQueryMetadata, StreamsMetadata
from penstock.query.request import StateQueryRequest
from penstock.query.result import StateQueryResult
from penstock.runtime.queries.parameters import StoreQueryParameters
from penstock.runtime.queries.views import ReadOnlyKeyValueStore

if TYPE_CHECKING:
    from penstock.client.queries.tables import StateTables

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class QueryMethods(JavaNames):
    """Reads committed state only: one commit of a partition as a whole."""

    _life: ClientLife
    _queries: Queries | None = None
    _tables: StateTables | None = None
    _displays: dict[str, LiveDisplay]

    @overload
    def store(self, parameters: Materialized[K, V]) -> ReadOnlyKeyValueStore[K, V]: ...

    @overload
    def store(self, parameters: StoreQueryParameters[T]) -> T: ...

    @overload
    def store(self, parameters: str) -> Any: ...

    def store(self, parameters: str | Materialized[Any, Any] | StoreQueryParameters[Any]) -> Any:
        """Return a read-only view of a store over its local partitions.

            counts = streams.store("counts")
            counts["alice"], counts.get("bob"), "carol" in counts

        A name is enough: the topology knows the kind of the store, and values are shown without timestamps and headers.
        The `Materialized` of a key-value store gives the view the types of its serdes:

            COUNTS = Materialized("counts", str, int)
            streams.store(COUNTS).get("bob")  # int | None

        `StoreQueryParameters` have further options: `partition` reads only that one, `stale_stores=True` also reads standbys
        and restoring tasks.
        """
        return self._reading().store(parameters)

    def live(
        self, store: str | Materialized[Any, Any] | StoreQueryParameters[Any], refresh: timedelta | float = 1.0, limit: int = 20
    ) -> LiveDisplay:
        """Show a store in a notebook as a table that updates every `refresh` seconds while the application runs.

            table = streams.live("counts", limit=10)
            table.stop()

        At most `limit` entries of this instance are read. A second table of the same store replaces the first.
        """
        view, seconds = self.store(store), refresh.total_seconds() if isinstance(refresh, timedelta) else refresh
        view.to_html(limit)  # raises an error for invalid arguments here
        if view.name in self._displays:
            self._displays[view.name].stop()
        made = self._displays[view.name] = LiveDisplay(
            lambda: str(view.to_html(limit)),
            seconds,
            lambda: self._life.state.is_running_or_rebalancing,
            f"live-{view.name}",
        )
        return made

    def query(self, request: StateQueryRequest[Any]) -> StateQueryResult[Any]:
        """Run a query on a store. Each partition on this instance answers separately.

        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("alice"))
        streams.query(request).only_partition_result.result
        """
        return self._reading().query(request)

    def query_metadata_for_key(
        self, store_name: str, key: Any, key_serializer: Any = None, partitioner: Partitioner | None = None
    ) -> KeyQueryMetadata:
        """Return the instance that has a key of a store, and those with a standby of it. Needs `application.server`.

        Without `key_serializer` the serializer of the store is used. Pass the `partitioner` of the writers, if they use one.
        """
        queries = self._reading()
        serializer = queries.stores.store(store_name).key_serde if key_serializer is None else key_serializer
        return queries.metadata_for_key(store_name, key, serializer, partitioner)

    def streams_metadata_for_store(self, store_name: str) -> list[StreamsMetadata]:
        """Return the instances that have partitions of a store."""
        return self._reading().metadata_for_store(store_name)

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        """Return all instances of the application with their stores and partitions."""
        return self._reading().metadata_for_all()

    def store_dataframe(self, store_name: str) -> Any:
        """Return the committed state of a store as a Spark DataFrame. Each action reads the current state.

        Its columns are `key`, `value` and, if the store has them, `timestamp`, `window_start` and `window_end`. Filters on keys
        and on the start of windows are applied in the store.
        """
        self._reading()
        assert self._tables is not None
        return self._tables.dataframe(store_name)

    def store_changes(self, name: str) -> Any:
        """The changes of a store as a Spark DataFrame: a row for each committed record that its changelog still has.

        Its columns are `key`, `value`, `window_start` and `window_end` where the store has them, `timestamp`, `deleted`,
        `partition` and `offset`. A changelog is compacted: of older changes of a key only the last one may be left. Every action
        reads anew.
        """
        self._reading()
        assert self._tables is not None
        return self._tables.changes(name)

    def create_temp_views(self) -> list[str]:
        """Create a temporary view of each queryable store and return their names. A view is named after its store, with `_`
        for characters that SQL does not allow.
        """
        self._reading()
        assert self._tables is not None
        return self._tables.create_temp_views()

    def _reading(self) -> Queries:
        check_running(self._life.state)
        if self._queries is None:
            raise StreamsStoppedError("the application cannot be queried: it is starting or has ended")
        return self._queries
