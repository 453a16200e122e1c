"""Stores as tables of Spark SQL."""

from __future__ import annotations

import re
from typing import Any

from penstock.client.queries.local_stores import LocalStores
from penstock.errors import InvalidStateStoreError, StreamsRebalancingError
from penstock.spark.state_tables import Source, state_dataframe


class StateTables:
    """DataFrames over the committed state of an application."""

    def __init__(self, spark: Any, stores: LocalStores) -> None:
        self._spark = spark
        self._stores = stores

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
        missing = sorted({t.partition for t in self._stores.tasks_of(name)} - {source.task_id.partition for source in found})
        if missing and not self._stores.is_global(name):
            raise InvalidStateStoreError(
                f"partitions {', '.join(map(str, missing))} of store {name} are with other instances of the application: a table "
                "shows the whole store, so run one instance, or ask the others for their part"
            )
        return found
