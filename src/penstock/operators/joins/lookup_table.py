"""Rows of a DataFrame by their key, as the join of a stream with a DataFrame looks them up: Arrow columns and an index."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.errors import StreamsError

MOST_ROWS: Final = 1_000_000
MOST_BYTES: Final = 256 << 20
"""Each stream thread has its own copy, with an index of about 100 bytes a row."""

Row = dict[str, Any]


@dataclass(frozen=True)
class DataFrameSource:
    """Where the rows come from: a function of the user's, which stays in the driver, and the columns of the key."""

    make: Callable[..., Any]
    columns: tuple[str, ...]
    refresh_ms: int | None = None

    def load(self, what: str, session: Callable[[], Any]) -> pa.Table:
        """Call the function and take the rows; StreamsError if there are none to take, or if they cannot be looked up."""
        try:
            frame = self.make(session()) if _takes_session(self.make) else self.make()
            table = _table_of(frame)
        except Exception as exc:
            raise StreamsError(f"join_dataframe {what}: the DataFrame cannot be read: {type(exc).__name__}: {exc}") from exc
        if table is None:
            raise StreamsError(
                f"join_dataframe {what}: the function returned {type(frame).__name__}. Return a DataFrame of Spark, "
                "a pyarrow.Table or a list of dicts"
            )
        if len(table) > MOST_ROWS or table.nbytes > MOST_BYTES:
            raise StreamsError(
                f"join_dataframe {what}: the DataFrame has more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20} MiB, and each "
                "stream thread keeps a copy. Select fewer rows or columns, or write it to a topic and join with that as a table"
            )
        missing = [column for column in self.columns if column not in table.column_names]
        if missing:
            raise StreamsError(
                f"join_dataframe {what}: the DataFrame has no column {', '.join(missing)}, by which it is looked up (on=…). "
                f"Its columns are {', '.join(table.column_names)}"
            )
        LookupTable(table, self.columns, what)
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        return DataFrameSource, (_stays_in_the_driver, self.columns, self.refresh_ms)


def _stays_in_the_driver() -> None:
    """In place of the user's function in workers: it may have a SparkSession in it."""


def _takes_session(make: Callable[..., Any]) -> bool:
    try:
        inspect.signature(make).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def _table_of(frame: Any) -> pa.Table | None:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, (list, tuple)) and all(isinstance(row, Mapping) for row in frame):
        return pa.Table.from_pylist(list(frame))
    if hasattr(frame, "toArrow"):  # Spark's: one row too many tells that it is too large, and no more than that is read
        return frame.limit(MOST_ROWS + 1).toArrow()
    return None


class LookupTable:
    """Rows by key; the key of several columns is a tuple.

    >>> table = LookupTable(pa.table({"id": ["a", "b"], "n": [1, 2]}), ("id",), "users")
    >>> table.row("b"), table.row("c")
    ({'id': 'b', 'n': 2}, None)
    """

    def __init__(self, table: pa.Table, columns: Sequence[str], what: str = "") -> None:
        self._columns = [(name, table.column(name).combine_chunks()) for name in table.column_names]
        found = [table.column(name).to_pylist() for name in columns]
        is_single = len(found) == 1
        keys = found[0] if is_single else list(zip(*found))
        self._index: dict[Any, int] = {}
        for number, key in enumerate(keys):
            has_null = key is None if is_single else None in key
            if not has_null and self._index.setdefault(key, number) != number:
                raise StreamsError(
                    f"join_dataframe {what}: the DataFrame has several rows with {', '.join(columns)} = {key!r}, and a record is "
                    "joined with one. Drop duplicates, or aggregate them"
                )

    def __len__(self) -> int:
        return len(self._index)

    def row(self, key: Any) -> Row | None:
        """The row of a key as a new dict; None if there is none."""
        number = self._index.get(tuple(key) if type(key) is list else key)
        if number is None:
            return None
        return {name: column[number].as_py() for name, column in self._columns}


class LookupTables:
    """The tables of a stream thread. All of its tasks see a new one from the same moment on, between two batches."""

    def __init__(self) -> None:
        self._tables: dict[str, LookupTable] = {}
        self._versions: dict[str, int] = {}

    def __getitem__(self, name: str) -> LookupTable:
        return self._tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def put(self, name: str, columns: Sequence[str], table: pa.Table) -> None:
        """Exchange a table."""
        self._tables[name] = LookupTable(table, columns, name)

    def update(self, given: Mapping[str, PackedTable]) -> None:
        """Exchange the tables of which there is another version."""
        for name, packed in given.items():
            if self._versions.get(name) != packed.version:
                self.put(name, packed.columns, packed.table())
                self._versions[name] = packed.version


@dataclass(frozen=True)
class PackedTable:
    """A version of a table as it is sent to workers."""

    version: int
    columns: tuple[str, ...]
    data: bytes

    @classmethod
    def of(cls, version: int, columns: tuple[str, ...], table: pa.Table) -> PackedTable:
        """The table as an Arrow IPC stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(version, columns, sink.getvalue().to_pybytes())

    def table(self) -> pa.Table:
        """The table."""
        return pa.ipc.open_stream(self.data).read_all()
