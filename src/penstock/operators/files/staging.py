"""Staged rows: one append-only Arrow file for each roll, of which only the committed length counts.

<path>/_penstock/<application>/<sink>/<partition>/<roll>.arrows       rows, appended at each commit
                                                  <roll>.published    the rows are in the lake
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from penstock.errors import StreamsError

_ROWS, _PUBLISHED = ".arrows", ".published"


class StagingFolder:
    """The folder of one sink and partition. Only the task of that partition writes here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Make the folder."""
        with explained("make the folder", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def rows_of(self, roll: str) -> Path:
        """Where the rows of a roll are staged."""
        return self.folder / f"{roll}{_ROWS}"

    def is_published(self, roll: str) -> bool:
        """Whether a roll is marked as published."""
        return (self.folder / f"{roll}{_PUBLISHED}").exists()

    def mark_published(self, roll: str) -> None:
        """Mark a roll as published, and remove its rows."""
        with explained("mark a published file in", self.folder):
            (self.folder / f"{roll}{_PUBLISHED}").touch()
            sync_folder(self.folder)
            self.rows_of(roll).unlink(missing_ok=True)

    def forget(self, rolls: Iterable[str]) -> None:
        """Remove all that is left of rolls that are published and that no store names any more."""
        for roll in rolls:
            for suffix in (_ROWS, _PUBLISHED):
                (self.folder / f"{roll}{suffix}").unlink(missing_ok=True)

    def keep_only(self, rolls: Collection[str]) -> None:
        """Remove what no committed roll names: rows of aborted transactions, unfinished files."""
        with explained("tidy the folder", self.folder):
            for entry in list(self.folder.iterdir()):
                if entry.name.partition(".")[0] in rolls and entry.suffix in (_ROWS, _PUBLISHED):
                    continue
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)

    def read(self, roll: str, length: int) -> pa.RecordBatchReader:
        """The committed rows of a roll, read as they are asked for."""
        file = self.rows_of(roll)
        with explained("read the staged rows", file):
            if not file.exists() or file.stat().st_size < length:
                raise StreamsError(
                    f"the staged rows {file} are missing, or shorter than the {length} bytes that were committed: somebody has "
                    "deleted them. Restore the file, or reset the application (penstock reset) and delete what it wrote"
                )
            with pa.memory_map(str(file)) as mapped:
                return pa.ipc.open_stream(mapped.read_buffer(length))


class StagedRows:
    """The open staging file of a roll."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        self._path = file
        with explained("stage rows in", file):
            self._file = file.open("xb")
            self._writer = pa.ipc.new_stream(self._file, schema)
            sync_folder(file.parent)

    def append(self, batch: pa.RecordBatch) -> int:
        """Append rows, safe on the disk; returns the length of the file with them."""
        with explained("stage rows in", self._path):
            self._writer.write_batch(batch)
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Close the file; its rows stay."""
        self._file.close()

    def __del__(self) -> None:  # a task that fails does not know whether a commit follows
        if hasattr(self, "_file"):
            self._file.close()


def sync_folder(folder: Path) -> None:
    """Make names in a folder safe on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Name what failed, and where, if the file system refuses something."""
    try:
        yield
    except OSError as exc:
        raise StreamsError(
            f"to_files() cannot {what} {path}: {exc.strerror or exc}. Check its rights and the free space on the disk"
        ) from exc
