"""The methods of `KafkaStreams` that read state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.client.client_life import ClientLife
from penstock.client.notebook import LiveDisplay
from penstock.client.queries.locations import Partitioner
from penstock.client.queries.queries import Queries, check_running
from penstock.errors import StreamsStoppedError
from penstock.java_names import JavaNames
from penstock.query.metadata import KeyQueryMetadata, StreamsMetadata
from penstock.query.parameters import StoreQueryParameters
from penstock.query.request import StateQueryRequest
from penstock.query.result import StateQueryResult

if TYPE_CHECKING:
    from penstock.client.queries.tables import StateTables


class QueryMethods(JavaNames):
    """Reads committed state: never what a turn has not committed yet, and always one commit of a partition as a whole."""

    _life: ClientLife
    _queries: Queries | None = None
    _tables: StateTables | None = None
    _displays: dict[str, LiveDisplay]

    def store(self, parameters: str | StoreQueryParameters[Any]) -> Any:
        """A read-only view of a store over all of its partitions that are here.

            counts = streams.store("counts")
            counts["alice"], counts.get("bob"), "carol" in counts

        A name is enough: the topology knows the kind of the store, and values are shown without timestamps and headers.
        `StoreQueryParameters` choose more: with `partition` only that one is read, with `stale_stores=True` also standbys and
        what is being restored.
        """
        return self._reading().store(parameters)

    def live(self, store: str | StoreQueryParameters[Any], refresh: timedelta | float = 1.0, limit: int = 20) -> LiveDisplay:
        """Show a store in a notebook as a table that updates itself, every `refresh` seconds, while the application runs.

            table = streams.live("counts", limit=10)
            table.stop()

        At most `limit` entries of this instance are read. Shown again, a store takes the place of its last table.
        """
        view, seconds = self.store(store), refresh.total_seconds() if isinstance(refresh, timedelta) else refresh
        view.to_html(limit)  # what is wrong with the call is raised here
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
        """Ask a store; each partition that is here answers for itself.

        streams.query(StateQueryRequest.in_store("counts").with_query(KeyQuery("alice"))).only_partition_result.result
        """
        return self._reading().query(request)

    def query_metadata_for_key(
        self, store_name: str, key: Any, key_serializer: Any = None, partitioner: Partitioner | None = None
    ) -> KeyQueryMetadata:
        """Which instance holds a key of a store, and which of them have a standby of it; needs `application.server`.

        Without a serializer that of the store is taken; a partitioner is needed where records were written with one.
        """
        queries = self._reading()
        serializer = queries.stores.store(store_name).key_serde if key_serializer is None else key_serializer
        return queries.metadata_for_key(store_name, key, serializer, partitioner)

    def streams_metadata_for_store(self, store_name: str) -> list[StreamsMetadata]:
        """The instances that hold some of a store."""
        return self._reading().metadata_for_store(store_name)

    def metadata_for_all_streams_clients(self) -> list[StreamsMetadata]:
        """What each instance of the application holds."""
        return self._reading().metadata_for_all()

    def store_dataframe(self, store_name: str) -> Any:
        """The committed state of a store as a Spark DataFrame, read anew by each action, where the state is.

        Its columns are `key`, `value` and, where the store has them, `timestamp`, `window_start` and `window_end`. Filters of
        keys and of the start of windows reach the store: only what they need is read.
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
        """Make every queryable store a temporary view of its name (with `_` for what SQL does not allow); returns the names."""
        self._reading()
        assert self._tables is not None
        return self._tables.create_temp_views()

    def _reading(self) -> Queries:
        check_running(self._life.state)
        if self._queries is None:
            raise StreamsStoppedError("the application is not ready to be read: it is starting or has ended")
        return self._queries
