"""Rolls as Parquet files: written under another name, then renamed into their folders, which is atomic."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import TopologyError
from penstock.operators.files.options import FilesOptions
from penstock.operators.files.staging import explained, sync_folder
from penstock.operators.files.target import Roll, Target, check_columns, check_partitions

_GROUP_BYTES = 64 << 20
"""So much of a file is in memory at once, except where rows are sorted into folders."""


class ParquetTarget(Target):
    """A folder of Parquet files, with a folder for each value of the columns it is partitioned by."""

    def last_version(self) -> int:
        return 0  # names have the roll's id too, so versions may repeat

    def is_published(self, roll: Roll) -> bool:
        return self.staging.is_published(roll.id)

    def publish(self, roll: Roll, rows: pa.RecordBatchReader) -> None:
        """Publish the rows of a roll.

        1. Write each file below the staging folder.
        2. Rename each to its place.
        3. Mark the roll as published.
        """
        drafts = self.staging.folder / f"{roll.id}.drafts"
        name = f"part-{self.part.partition:05d}-{roll.version:08d}-{roll.id}.parquet"
        with explained("publish files in", self.options.path):
            shutil.rmtree(drafts, ignore_errors=True)
            drafts.mkdir()
            written = self._write_drafts(rows, drafts)
            for draft, folder in written:
                folder.mkdir(parents=True, exist_ok=True)
                os.replace(draft, folder / name)
                sync_folder(folder)
            self.staging.mark_published(roll.id)
            shutil.rmtree(drafts, ignore_errors=True)

    def _write_drafts(self, rows: pa.RecordBatchReader, drafts: Path) -> list[tuple[Path, Path]]:
        """Write all files of a roll; returns each with the folder it belongs to."""
        path, columns = self.options.path, self.options.partition_by
        if not columns:
            _write(drafts / "0", rows.schema, rows)
            return [(drafts / "0", path)]
        written = []
        for number, (folder, table) in enumerate(by_folder(rows.read_all(), columns)):
            _write(drafts / str(number), table.schema, table.to_batches())
            written.append((drafts / str(number), path / folder))
        return written


def by_folder(table: pa.Table, columns: tuple[str, ...]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each combination of values, without these columns, and the folder for it as Hive names it.

    >>> [(folder, part.to_pylist()) for folder, part in by_folder(pa.table({"day": ["mon", None], "n": [1, 2]}), ("day",))]
    [('day=mon', [{'n': 1}]), ('day=__HIVE_DEFAULT_PARTITION__', [{'n': 2}])]
    """
    import pyarrow.dataset as ds  # takes a tenth of a second, which only those who use it pay

    naming = ds.HivePartitioning(pa.schema([table.schema.field(column) for column in columns]))
    groups = table.select(list(columns)).append_column("__row", pa.array(range(len(table)), pa.int64()))
    found = groups.group_by(list(columns), use_threads=False).aggregate([("__row", "list")])
    for group in found.to_pylist():
        condition: Any = None
        for column in columns:
            field = ds.field(column)
            value = group[column]
            term = field.is_null() if value is None else field == pa.scalar(value, table.schema.field(column).type)
            condition = term if condition is None else condition & term
        folder, _ = naming.format(condition)
        yield folder.strip("/"), table.take(pa.array(group["__row_list"], pa.int64())).drop_columns(list(columns))


def _write(file: Path, schema: pa.Schema, batches: Any) -> None:
    import pyarrow.parquet as pq

    with file.open("wb") as opened:
        with pq.ParquetWriter(opened, schema, compression="zstd") as writer:
            group: list[pa.RecordBatch] = []
            size = 0
            for batch in batches:
                group.append(batch)
                size += batch.nbytes
                if size >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(group, schema))
                    group, size = [], 0
            if group:
                writer.write_table(pa.Table.from_batches(group, schema))
        opened.flush()
        os.fsync(opened.fileno())


def check_folder(options: FilesOptions) -> None:
    """TopologyError if the folder holds a Delta table, or Parquet files with other columns."""
    import pyarrow.parquet as pq

    path = options.path
    if (path / "_delta_log").is_dir():
        raise TopologyError(
            f'to_files(): {path} is a Delta table, to which Parquet files are not added. Use format="delta", or another path.'
        )
    found = first_file(path)
    if found is None:
        return
    with explained("read", found):
        try:
            schema = pq.read_schema(found)
        except pa.ArrowException as exc:
            raise TopologyError(f"to_files(): {found} is not a Parquet file: {exc}. Remove it, or use another path.") from exc
    folders = found.relative_to(path).parts[:-1]
    check_partitions(
        path, [name for name, equals, _ in (folder.partition("=") for folder in folders) if equals], options.partition_by
    )
    check_columns(path, schema, options.data_columns)


def first_file(path: Path) -> Path | None:
    """A Parquet file that readers of the folder see; None if there is none."""
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(("_", ".")))
        for name in sorted(files):
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                return Path(folder, name)
    return None
