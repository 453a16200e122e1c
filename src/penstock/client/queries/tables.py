"""Spark SQL tables of stores."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from penstock.client.queries.local_stores import LocalStores
from penstock.client.queries.locations import Locations
from penstock.errors import InvalidStateStoreError, StateStoreMigratedError, StreamsRebalancingError
from penstock.ids import TaskId
from penstock.query.metadata import HostInfo
from penstock.query.table_read import key_format_of
from penstock.runtime.queries.arrow_table import columns_of
from penstock.runtime.queries.changes import changelog_of, changes_columns_of
from penstock.spark.driver.session_use import SessionUse
from penstock.spark.queries.data_source import register
from penstock.spark.queries.located_source import LocatedTables
from penstock.spark.queries.store_locator import StoreLocator, StoreSource
from penstock.spark.worker.residency import packed


class StateTables:
    """DataFrames over the committed state of an application."""

    def __init__(self, use: SessionUse, stores: LocalStores, locations: Callable[[], Locations]) -> None:
        self._use = use
        self._stores = stores
        self._locations = locations
        self._store_locator: StoreLocator | None = None
        self._tables: LocatedTables | None = None
        self._lock = threading.Lock()

    @property
    def locator_address(self) -> Any:
        """The store locator's address, None before the first table."""
        return None if self._store_locator is None else self._store_locator.address

    def dataframe(self, name: str) -> Any:
        """Return a store as a DataFrame. Every action reads the committed state again."""
        store, sources = self._stores.store(name), self._sources(name)
        places = {source.task_id: source.executor for source in sources}
        return self._guided().dataframe(name, columns_of(store), key_format_of(store.key_serde), places)

    def changes(self, name: str) -> Any:
        """The changes of a store as a DataFrame; every action reads what is committed then."""
        store = self._stores.store(name)
        changelog_of(store)
        return self._guided().changes(name, changes_columns_of(store), self._stores.tasks_of(name))

    def _guided(self) -> LocatedTables:
        with self._lock:
            if self._store_locator is None:
                self._store_locator = StoreLocator(self._use.context, self._stores.application, self._source_of)
            if self._tables is None:
                # Only on demand: at the first registered source, Spark starts a Python process to look for others.
                session = self._use.session
                register(session)
                application = self._stores.application
                application_id, guide = application.config["application.id"], self._store_locator.address
                self._tables = LocatedTables(session, application_id, packed(application), guide)
            return self._tables

    def create_temp_views(self) -> list[str]:
        """Create a temporary view for each readable store and return the names."""
        names = []
        for name in self._stores.names:
            try:
                frame = self.dataframe(name)
            except StreamsRebalancingError:
                raise
            except InvalidStateStoreError:
                continue  # a buffer or a user's custom store
            view = re.sub(r"\W", "_", name)
            frame.createOrReplaceTempView(view)
            names.append(view)
        return names

    def renew(self) -> None:
        """Forget the tables of a session that has ended."""
        with self._lock:
            self._tables = None

    def close(self) -> None:
        """Stop answering table readers."""
        with self._lock:
            if self._store_locator is not None:
                self._store_locator.close()

    def _source_of(self, name: str, task_id: TaskId) -> StoreSource:
        """Return the current location of a partition."""
        found = next((source for source in self._sources(name) if source.task_id == task_id), None)
        if found is None:
            raise StateStoreMigratedError(f"store {name} no longer has a partition {task_id.partition}. Make the table again")
        return found

    def _sources(self, name: str) -> list[StoreSource]:
        found = self._stores.sources(name)
        if self._stores.is_global(name):
            return found
        missing = [t for t in self._stores.tasks_of(name) if t not in {source.task_id for source in found}]
        others = {task: self._locations().host_of(task) for task in missing}
        unknown = [task.partition for task, host in others.items() if host == HostInfo.unavailable()]
        if unknown:
            membership = self._locations().membership
            if membership is None or len(set(membership.owners.values())) <= 1:  # no other member can own them
                raise StreamsRebalancingError(
                    f"partitions {', '.join(map(str, unknown))} of store {name} are being opened or restored. Try again later"
                )
            raise InvalidStateStoreError(
                f"partitions {', '.join(map(str, unknown))} of store {name} are on other instances, and a table "
                "shows the whole store. Set application.server on all instances, so that they can be queried"
            )
        return found + [StoreSource(task, "", server=str(host)) for task, host in others.items()]
