"""The data source for the tables of the application in this driver, with what Spark's planning needs.

Spark may start a Python process to plan a query, so modules that read state are imported only by the readers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from penstock.ids import TaskId
from penstock.query.change_read import CHANGES, ChangeRead
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

    def table(self) -> LocatedTable | LocatedChanges:
        wanted = self.changes()
        table = self._table()
        return table if wanted is None else LocatedChanges(table, wanted)

    def _table(self) -> LocatedTable:
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


@dataclass(frozen=True)
class LocatedChanges:
    """The changes of a store of the application in the driver; `located` has the columns of the changes."""

    located: LocatedTable
    wanted: ChangeRead

    def describe(self) -> StoreTable:
        """Its columns and how many partitions it has."""
        return self.located.describe()

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The changes of a partition, from the brokers."""
        from penstock.spark.queries.store_changes import located_changes
        from penstock.spark.worker.residency import unpacked

        application, located = unpacked(self.located.application), self.located
        return located_changes(application, located.store, located.tasks[partition], self.wanted, columns)


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

    def changes(self, store: str, columns: Columns, tasks: Sequence[TaskId]) -> DataFrame:
        """A DataFrame over the changes of a store."""
        if not self._has_source:
            whole = LocatedTable(store, self._application, self._store_locator, tuple(columns), None, tuple(tasks))
            indices = placed_rows(self._spark.sparkContext, [None for _ in tasks])
            read = partial(_rows, LocatedChanges(whole, ChangeRead()))
            return self._spark.createDataFrame(indices.mapPartitions(read), ddl(columns), verifySchema=False)
        table = json.dumps({"columns": columns, "key_format": None, "tasks": tasks})
        reader = self._spark.read.format(self._name).schema(ddl(columns))
        return reader.options(**{STORE: store, _TABLE: table, CHANGES: "true"}).load()


def _rows(table: LocatedTable | LocatedChanges, indices: Iterator[int]) -> Iterator[tuple[Any, ...]]:
    for index in indices:
        for batch in table.batches(index, ALL, table.describe().columns):
            yield from zip(*(column.to_pylist() for column in batch.columns))
