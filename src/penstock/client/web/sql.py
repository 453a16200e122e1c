"""SQL on the state that is here, for people at a page: one query, over a copy, which can read and nothing else.

Spark's SQL reads stores too (`store_dataframe`), and can write files and call any function of Java: nothing for a page. So the
entries of the stores that a query names are put into a SQLite database in memory, so many at most, and the query runs there. It
is refused whatever is not a plain query: SQLite asks about each step before it runs one (`set_authorizer`).
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.client.queries.queries import Queries
from penstock.client.web.errors import HttpError
from penstock.query.columns import as_column
from penstock.query.table_read import ALL
from penstock.runtime.queries.arrow_table import Columns, columns_of
from penstock.runtime.queries.entries import entries_for
from penstock.runtime.queries.patience import current, patiently
from penstock.usage import own_usage

MOST_ROWS = 1_000
MOST_ENTRIES = 100_000
_MOST_BYTES = 64 * 1024 * 1024
_MOST_GROWTH = 256 * 1024 * 1024
_MOST_CELL = 4_000
_LONGEST = 4_000
_STEPS = 10_000  # of SQLite's machine between two looks at the clock

# What makes long texts of short ones is not among them.
_FUNCTIONS = re.compile(
    r"abs|avg|ceil|ceiling|coalesce|count|date|datetime|dense_rank|first_value|floor|glob|iif|ifnull|instr|json_array_length"
    r"|json_extract|json_type|json_valid|julianday|lag|last_value|lead|length|like|lower|ltrim|max|min|mod|nth_value|ntile|nullif"
    r"|percent_rank|pow|power|rank|round|row_number|rtrim|sign|sqrt|strftime|substr|substring|sum|time|total|trim|typeof|unicode"
    r"|unixepoch|upper|->|->>"
)
_LIMITS = {
    "SQLITE_LIMIT_LENGTH": 1_000_000,
    "SQLITE_LIMIT_SQL_LENGTH": 8_000,
    "SQLITE_LIMIT_ATTACHED": 0,
    "SQLITE_LIMIT_COLUMN": 100,
}


class SqlConsole:
    """Answers queries over the stores of one instance."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def answer(self, query: str) -> dict[str, Any]:
        """Names of columns, rows, and how much of each store was looked at.

        1. Find out which stores the query reads, with tables that are empty.
        2. Copy their entries, of the partitions that are here.
        3. Run it.
        """
        if sys.version_info < (3, 11):
            raise HttpError(501, "SQL on the page needs Python 3.11: before, SQLite's memory cannot be limited")
        text = query.strip().rstrip(";")
        if not text:
            raise HttpError(400, 'type a query, for example: select key, value from "counts" order by value desc limit 20')
        if len(text) > _LONGEST:
            raise HttpError(400, f"the query is longer than {_LONGEST} characters")
        self._queries.check_running()
        tables = self._tables()
        with _Database() as database:
            database.create(tables)
            wanted = database.read_by(text)
            told = []
            for name in sorted(wanted):
                read, whole = database.fill(name, tables[name], self._entries(name, tables[name]))
                told.append({"store": name, "entries": read, "whole": whole, **self._coverage(name)})
            columns, rows, more = database.run(text)
        return {"columns": columns, "rows": rows, "more": more, "stores": told}

    def _tables(self) -> dict[str, Columns]:
        found: dict[str, Columns] = {}
        for name in self._queries.stores.names:
            try:
                found[name] = columns_of(self._queries.stores.store(name))
            except Exception:  # noqa: BLE001, S112 - a buffer, or a kind of the user's own: not for queries
                continue
        return found

    def _entries(self, name: str, columns: Columns) -> Iterator[tuple[Any, ...]]:
        store = self._queries.stores.store(name)
        for local in self._queries.stores.partitions(name):
            if not local.active:
                continue
            if not local.running:
                raise HttpError(503, f"partition {local.partition} of store {name} is being opened or restored; ask again later")
            with local.reader.lease() as lease:
                for entry in patiently(entries_for(store, lease.store, ALL)):
                    yield tuple(_cell(getattr(entry, column), kind) for column, kind in columns)

    def _coverage(self, name: str) -> dict[str, int]:
        stores = self._queries.stores
        if stores.is_global(name):
            return {"partitions": 1, "here": 1}
        return {"partitions": len(stores.tasks_of(name)), "here": len(stores.owned(name))}


class _Database:
    """A SQLite database in memory that only tells."""

    def __enter__(self) -> _Database:
        connection: Any = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection: sqlite3.Connection = connection
        for name, limit in _LIMITS.items():
            connection.setlimit(getattr(sqlite3, name), limit)
        connection.execute("pragma temp_store = memory")  # what a sort or a join piles up is seen, and ends it
        self._read: set[str] = set()
        self._known: frozenset[str] = frozenset()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self, tables: dict[str, Columns]) -> None:
        for name, columns in tables.items():
            self._connection.execute(f"create table {_quoted(name)} ({', '.join(_quoted(column) for column, _ in columns)})")
        self._known = frozenset(tables)

    def read_by(self, query: str) -> set[str]:
        """The tables of a query, which is refused where it is none; nothing is run."""
        if not re.match(r"(select|with|values)\b", query, re.IGNORECASE):
            raise HttpError(400, "a query begins with select or with: state can be read here, and not changed")
        self._guard()
        try:
            self._connection.execute(f"explain {query}")
        except (sqlite3.Error, sqlite3.Warning) as exc:
            raise _refused(exc) from exc
        finally:
            self._unguard()
        return self._read & self._known

    def fill(self, name: str, columns: Columns, entries: Iterator[tuple[Any, ...]]) -> tuple[int, bool]:
        """Copy entries; how many these were, and whether that was all."""
        places = ", ".join("?" * len(columns))
        insert, read, size = f"insert into {_quoted(name)} values ({places})", 0, 0  # noqa: S608 - names of stores, quoted
        self._connection.execute("begin")
        while part := list(islice(entries, min(1_000, MOST_ENTRIES - read))):
            self._connection.executemany(insert, part)
            read += len(part)
            size += sum(len(cell) if isinstance(cell, (str, bytes)) else 8 for row in part for cell in row)
            if size > _MOST_BYTES or read >= MOST_ENTRIES:
                break
        self._connection.execute("commit")
        return read, next(entries, None) is None

    def run(self, query: str) -> tuple[list[str], list[list[Any]], bool]:
        """Names and rows, and whether there are more."""
        self._guard()
        most = own_usage().memory + _MOST_GROWTH
        self._connection.set_progress_handler(lambda: current().is_over or own_usage().memory > most, _STEPS)
        try:
            cursor = self._connection.execute(query)
            rows = cursor.fetchmany(MOST_ROWS + 1)
            names = [column[0] for column in cursor.description or ()]
        except (sqlite3.Error, sqlite3.Warning, OverflowError, MemoryError) as exc:
            current().check()
            if "interrupted" in str(exc):
                raise HttpError(400, "SQL: the query takes too much memory; let it sort or join less") from exc
            raise _refused(exc) from exc
        finally:
            self._connection.set_progress_handler(None, 0)
            self._unguard()
        return names, [[_shown(cell) for cell in row] for row in rows[:MOST_ROWS]], len(rows) > MOST_ROWS

    def _guard(self) -> None:
        self._connection.set_authorizer(self._authorize)

    def _unguard(self) -> None:
        self._connection.set_authorizer(None)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first in self._known:
            self._read.add(str(first))
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and _FUNCTIONS.fullmatch((second or "").lower()):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


def _cell(value: Any, kind: str) -> Any:
    found = as_column(value, kind)
    if isinstance(found, (list, dict)):
        return as_column(value, "string")
    if isinstance(found, int) and not isinstance(found, bool) and not -(2**63) <= found < 2**63:
        return str(found)
    if isinstance(found, str):
        return found[:_MOST_CELL].encode("utf-8", "replace").decode()
    return found[:_MOST_CELL] if isinstance(found, bytes) else found


def _shown(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return f"0x{cell[: _MOST_CELL // 2].hex()}"
    if isinstance(cell, float) and (cell != cell or cell in (float("inf"), float("-inf"))):
        return str(cell)
    if isinstance(cell, int) and abs(cell) > 2**53:
        return str(cell)  # a browser would round it
    return cell[:_MOST_CELL] if isinstance(cell, str) else cell


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _refused(error: BaseException) -> HttpError:
    text = str(error)
    if "not authorized" in text or "prohibited" in text:
        text = f"{text}: only tables of stores can be read, and only plain functions called"
    return HttpError(400, f"SQL: {text}")
