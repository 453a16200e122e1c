"""Stores as tables of Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.client.queries.local_stores import LocalStores
from penstock.client.queries.locations import Locations
from penstock.errors import InvalidStateStoreError, StreamsRebalancingError
from penstock.query.metadata import HostInfo
from penstock.spark.state_tables import Source, state_dataframe


class StateTables:
    """DataFrames over the committed state of an application."""

    def __init__(self, spark: Any, stores: LocalStores, locations: Callable[[], Locations]) -> None:
        self._spark = spark
        self._stores = stores
        self._locations = locations

    def dataframe(self, name: str) -> Any:
        """A store as a DataFrame; every action reads what is committed then."""
        store = self._stores.store(name)
        return state_dataframe(self._spark, self._stores.application, store, self._sources(name))

    def create_temp_views(self) -> list[str]:
        """A temporary view for each store that can be read; returns the names."""
        names = []
        for name in self._stores.names:
            try:
                frame = self.dataframe(name)
            except StreamsRebalancingError:
                raise
            except InvalidStateStoreError:
                continue  # a buffer or a store of the user's own kind
            view = re.sub(r"\W", "_", name)
            frame.createOrReplaceTempView(view)
            names.append(view)
        return names

    def _sources(self, name: str) -> list[Source]:
        found = self._stores.sources(name)
        if self._stores.is_global(name):
            return found
        missing = [t for t in self._stores.tasks_of(name) if t not in {source.task_id for source in found}]
        others = {task: self._locations().host_of(task) for task in missing}
        unknown = [task.partition for task, host in others.items() if host == HostInfo.unavailable()]
        if unknown:
            raise InvalidStateStoreError(
                f"partitions {', '.join(map(str, unknown))} of store {name} are with other instances, and a table "
                "shows the whole store: set application.server on all instances, so that they can be asked for their part"
            )
        by_host = {host: task for task, host in others.items()}
        return found + [Source(task, "", server=str(host)) for host, task in by_host.items()]
