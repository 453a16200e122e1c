"""The stores of an application as a Spark data source: `spark.read.format("penstock")`, `CREATE TABLE … USING penstock`.

Spark plans a query in a separate Python process, which asks an instance for the store's schema. Python workers read the
partitions as Arrow batches. They locate a partition when they read it: a table is live.

Filters are not pushed down here. Spark (4.1 to 4.3) keeps filters that were pushed into a Python data source with the table
instead of the scan, so two uses of one table with different filters return wrong rows. `spark/queries/live_table.py` pushes
them correctly, and so do options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, UnknownStateStoreError
from penstock.hashing import default_partition
from penstock.query.change_read import ChangeRead, change_columns
from penstock.query.table_filters import both, filters_from, read_for
from penstock.query.table_read import ALL, TableRead, key_bytes, read_of_options
from penstock.spark.queries.remote_tables import SECRETS, Columns, Servers, StoreTable

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "penstock"
STORE, FILTERS = "store", "penstock.filters"
"""Options: the store's name, and the filters pushed by `live_table`."""

# Sessions in which the format is registered: a second registration makes Spark log a warning.
_told: WeakSet[SparkSession] = WeakSet()

_OWN = ("key", "key.from", "key.to", "window.from", "window.to")


class Table(Protocol):
    """Reads a table. It is pickled to the workers."""

    def describe(self) -> StoreTable:
        """Return the columns and partitions."""

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the requested rows of a partition."""


@dataclass(frozen=True)
class ServedTable:
    """A table read from the query servers of an application."""

    store: str
    servers: Servers

    def describe(self) -> StoreTable:
        return self.servers.table_now(self.store)

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        return self.servers.batches(self.store, partition, read, columns)


@dataclass(frozen=True)
class ServedChanges:
    """The changes of a store, read from the query servers of an application; any instance has all partitions."""

    store: str
    servers: Servers
    wanted: ChangeRead

    def describe(self) -> StoreTable:
        """Its columns and how many partitions it has."""
        table = self.servers.table_now(self.store)
        return StoreTable(change_columns(table.columns), None, table.active)

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The changes of a partition."""
        return self.servers.changes(self.store, partition, self.wanted, columns)


class PenstockDataSource(DataSource):  # type: ignore[misc]  # pyspark has no types here
    """`spark.read.format("penstock").option("application.server", "host:port").option("store", "counts").load()`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the store's table.

        For a table in a catalog, Spark passes a Python data source the schema without the options. So the options, except
        secrets, are stored in the schema's metadata.
        """
        return struct_of(self.table().describe().columns, {NAME: dict(_public(self.options))})

    def table(self) -> Table:
        """Return the table that the options describe."""
        store = self.options.get(STORE)
        if not store:
            raise UnknownStateStoreError(
                'a table of penstock needs .option("store", "…"): the name of a store of the application'
            )
        wanted = self.changes()
        servers = Servers.of(self.options)
        return ServedTable(store, servers) if wanted is None else ServedChanges(store, servers, wanted)

    def changes(self) -> ChangeRead | None:
        """Which changes are wanted, if changes are."""
        try:
            found = ChangeRead.of(self.options)
        except ValueError as exc:
            raise ConfigError(f"options of store {self.options.get(STORE)}: {exc}") from exc
        given = [name for name in (_OWN if found is not None else ("from", "to")) if name in self.options]
        if given:
            kind = "changes are read between two times, by from and to" if found else 'they are for .option("changes", "true")'
            raise ConfigError(f"options of store {self.options.get(STORE)}: {', '.join(given)} cannot be given here: {kind}")
        return found

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader for these columns."""
        for name, value in _noted(schema).items():
            self.options.setdefault(name, value)
        table = self.table()
        described = table.describe()
        columns = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
        unknown = [column for column in columns if column not in described.columns]
        if unknown:
            raise ConfigError(
                f"store {self.options.get(STORE)} has no column {ddl(unknown)}: its table is ({ddl(described.columns)})"
            )
        if self.changes() is not None:
            return StoreReader(table, columns, ALL, None, len(described.active))
        try:
            read = read_of_options(self.options, described.key_format)
        except ValueError as exc:
            raise ConfigError(f"options {', '.join(_OWN)} of store {self.options.get(STORE)}: {exc}") from exc
        read = both(read, read_for(filters_from(self.options.get(FILTERS, "")), described.key_format))
        return StoreReader(table, columns, read, described.key_format, len(described.active))


@dataclass(frozen=True)
class _Part(InputPartition):  # type: ignore[misc]
    """One partition of a store. `keys` has the requested keys of this partition, if single keys are requested."""

    number: int
    keys: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class StoreReader(DataSourceReader):  # type: ignore[misc]
    """Reads one store. Requested keys are looked up in their partitions."""

    table: Table
    columns: Columns
    wanted: TableRead
    key_format: str | None
    count: int

    def partitions(self) -> list[InputPartition]:
        """Return one input partition for each partition that has to be read."""
        if self.wanted.keys is None:
            return [_Part(number) for number in range(self.count)]
        homes: dict[int, list[Any]] = {}
        for key in self.wanted.keys:
            homes.setdefault(default_partition(key_bytes(key, str(self.key_format)), self.count), []).append(key)
        # Without a partition Spark would add one.
        return [_Part(number, tuple(keys)) for number, keys in sorted(homes.items())] or [_Part(0, ())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the requested rows of a partition."""
        if partition.keys is None:
            yield from self.table.batches(partition.number, self.wanted, self.columns)
            return
        # As in queries: keys that are not in their default partition are looked up in the others, for custom partitioners.
        left, names = dict.fromkeys(partition.keys), [name for name, _ in self.columns]
        columns = self.columns if "key" in names else (*self.columns, ("key", _KEY_TYPES.get(str(self.key_format), "")))
        for number in sorted(range(self.count), key=lambda number: number != partition.number):
            if not left:
                return
            found = set()
            for batch in self.table.batches(number, replace(self.wanted, keys=tuple(left)), columns):
                found.update(batch.column("key").to_pylist())
                yield batch if columns is self.columns else batch.select(names)
            for key in found:
                left.pop(key, None)


_KEY_TYPES = {name: "string" if name == "uuid" else name for name in ("string", "uuid", "bigint", "int", "smallint", "binary")}


def ddl(columns: Columns) -> str:
    """Format columns as SQL DDL.

    >>> ddl([("key", "string"), ("value", "bigint")])
    'key string, value bigint'
    """
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def struct_of(columns: Columns, metadata: Mapping[str, Any]) -> StructType:
    """Return columns as Spark's schema, with metadata at the first column."""
    fields = [{"name": name, "type": _json_type(kind), "nullable": True, "metadata": {}} for name, kind in columns]
    fields[0]["metadata"] = dict(metadata)
    return StructType.fromJson({"type": "struct", "fields": fields})


def _json_type(kind: str) -> Any:
    if kind.startswith("array<"):
        return {"type": "array", "elementType": _json_type(kind[6:-1]), "containsNull": True}
    return {"bigint": "long", "int": "integer", "smallint": "short"}.get(kind, kind)


def _public(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in options.items() if name.lower() not in SECRETS)


def _noted(schema: StructType) -> dict[str, str]:
    for field in schema.fields:
        if isinstance(found := (field.metadata or {}).get(NAME), dict):
            return {str(name): str(value) for name, value in found.items()}
    return {}


def register(spark: SparkSession) -> None:
    """Register the format in a session. A second call does nothing."""
    if spark not in _told:
        spark.dataSource.register(PenstockDataSource)
        _told.add(spark)
