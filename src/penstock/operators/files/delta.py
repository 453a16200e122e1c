"""Rolls as commits of a Delta table: the transaction of each names task and version, so that none is added twice."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pyarrow as pa

from penstock.errors import StreamsError, TopologyError
from penstock.operators.files.options import FilesOptions
from penstock.operators.files.parquet import first_file
from penstock.operators.files.staging import explained
from penstock.operators.files.target import Roll, Target, check_columns, check_partitions


def has_deltalake() -> bool:
    """Whether deltalake is installed, which is an extra."""
    return importlib.util.find_spec("deltalake") is not None


def _deltalake() -> Any:
    return importlib.import_module("deltalake")


class DeltaTarget(Target):
    """A Delta table on this file system."""

    _table: Any = None

    def last_version(self) -> int:
        return self._open().transaction_version(self.part.key) or 0

    def is_published(self, roll: Roll) -> bool:
        return self.last_version() >= roll.version

    def publish(self, roll: Roll, rows: pa.RecordBatchReader) -> None:
        """Append the rows in one commit; a commit of the same task that came first makes it fail."""
        lake = _deltalake()
        properties = lake.CommitProperties(
            app_transactions=[lake.Transaction(self.part.key, roll.version)],
            max_commit_retries=_MOST_RETRIES,
        )
        try:
            lake.write_deltalake(self._open(), rows, mode="append", commit_properties=properties)
        except lake.exceptions.DeltaError as exc:
            if not self.is_published(roll):  # by a thread that has lost the task meanwhile, with the same rows
                raise StreamsError(
                    f"to_files() cannot add rows to the Delta table {self.options.path}: {exc}. The rows stay staged"
                ) from exc
        self.staging.mark_published(roll.id)

    def _open(self) -> Any:
        if self._table is None:
            self._table = opened(self.options)
        else:
            self._table.update_incremental()
        return self._table


_MOST_RETRIES = 100
"""Each task commits for itself, and each commit may meet those of all other tasks."""


def opened(options: FilesOptions) -> Any:
    """The table; made if it is not there yet."""
    lake = _deltalake()
    with explained("make the folder", options.path):
        options.path.mkdir(parents=True, exist_ok=True)
    try:
        lake.DeltaTable.create(
            str(options.path), schema=options.schema, partition_by=list(options.partition_by) or None, mode="ignore"
        )
        return lake.DeltaTable(str(options.path))
    except lake.exceptions.DeltaError as exc:
        try:
            return lake.DeltaTable(str(options.path))  # another task has made it at the same moment
        except lake.exceptions.DeltaError:
            raise StreamsError(f"to_files() cannot open the Delta table {options.path}: {exc}") from exc


def check_table(options: FilesOptions) -> None:
    """TopologyError if deltalake is missing, or if the table has other columns."""
    path = options.path
    if not (path / "_delta_log").is_dir():
        if first_file(path) is not None:
            raise TopologyError(
                f'to_files(): {path} has Parquet files and is no Delta table. Use format="parquet", or another path.'
            )
        return
    table = opened(options)
    check_partitions(path, table.metadata().partition_columns, options.partition_by)
    check_columns(path, pa.schema(table.schema().to_arrow()), delta_types(options.schema))


def delta_types(schema: pa.Schema) -> pa.Schema:
    """The columns as a Delta table gives them back."""
    return pa.schema(_deltalake().Schema.from_arrow(schema).to_arrow())
