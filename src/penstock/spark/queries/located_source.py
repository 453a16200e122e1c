"""The data source for the tables of the application in this driver, with what Spark's planning needs.

Spark may start a Python process to plan a query, so modules that read state are imported only by the readers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from penstock.ids import TaskId
from penstock.query.table_read import ALL, TableRead
from penstock.spark.internals import placed_rows
from penstock.spark.queries.data_source import STORE, PenstockDataSource, ddl
from penstock.spark.queries.live_table import live_dataframe
from penstock.spark.queries.remote_tables import Columns, StoreTable

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.spark.queries.channel import Address

_TABLE = "penstock.table"


class LocatedDataSource(PenstockDataSource):
    """The tables of one application.

    The application travels with the class, as Spark sends user code. No secret is among the options of a table, which plans
    and catalogs show.
    """

    source_name: str
    application: bytes
    guide: Address

    @classmethod
    def name(cls) -> str:
        return cls.source_name

    def table(self) -> LocatedTable:
        found = json.loads(self.options[_TABLE])
        columns = tuple((name, kind) for name, kind in found["columns"])
        tasks = tuple(TaskId(*task) for task in found["tasks"])
        return LocatedTable(self.options[STORE], self.application, self.guide, columns, found["key_format"], tasks)


@dataclass(frozen=True)
class LocatedTable:
    """A store of the application in this driver. `tasks` has the task of each partition, in order."""

    store: str
    application: bytes = field(repr=False)
    guide: Address
    columns: tuple[tuple[str, str], ...]
    key_format: str | None
    tasks: tuple[TaskId, ...]

    def describe(self) -> StoreTable:
        return StoreTable(self.columns, self.key_format, (None,) * len(self.tasks))

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        from penstock.spark.queries.state_tables import located_batches
        from penstock.spark.worker.residency import unpacked

        return located_batches(unpacked(self.application), self.store, self.tasks[partition], columns, self.guide, read)


class LocatedTables:
    """Makes DataFrames over the stores of one application in its session. `application` is pickled."""

    def __init__(self, spark: SparkSession, application_id: str, application: bytes, guide: Address) -> None:
        self._spark = spark
        self._application, self._store_locator = application, guide
        # Spark plans Python data sources in the driver with the executors' Python, which may not exist there.
        self._has_source = shutil.which(spark.sparkContext.pythonExec) is not None
        # One name for each application and all its starts: a session cannot unregister a source.
        self._name = f"penstock-{application_id}"
        members = {"source_name": self._name, "application": application, "guide": guide, "__module__": "__main__"}
        if self._has_source:
            spark.dataSource.register(type("ApplicationTables", (LocatedDataSource,), members))

    def dataframe(self, store: str, columns: Columns, key_format: str | None, places: Mapping[TaskId, str | None]) -> DataFrame:
        """Return a DataFrame over a store's partitions. `places` has their tasks and current executors."""
        tasks = tuple(sorted(places))
        if not self._has_source:
            whole = LocatedTable(store, self._application, self._store_locator, tuple(columns), key_format, tasks)
            indices = placed_rows(self._spark.sparkContext, [places[task] for task in tasks])
            return self._spark.createDataFrame(indices.mapPartitions(partial(_rows, whole)), ddl(columns), verifySchema=False)
        table: dict[str, Any] = {"columns": columns, "key_format": key_format, "tasks": tasks}
        return live_dataframe(self._spark, self._name, ddl(columns), {STORE: store, _TABLE: json.dumps(table)})


def _rows(table: LocatedTable, indices: Iterator[int]) -> Iterator[tuple[Any, ...]]:
    for index in indices:
        for batch in table.batches(index, ALL, table.columns):
            yield from zip(*(column.to_pylist() for column in batch.columns))
