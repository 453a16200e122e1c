"""The stores of an application as a data source of Spark: `spark.read.format("penstock")`, `CREATE TABLE … USING penstock`.

A query is planned in a Python process that Spark starts for it, which asks an instance what the store looks like; its partitions
are read in ordinary Python workers, as Arrow batches. Where a partition is they ask when they read it: a table is live.

Filters are not taken from Spark here. Spark (4.1 to 4.3) keeps what was pushed into a Python data source with the table instead
of with the scan, so that two uses of one table with different filters give wrong rows. `live_table.py` does it aright, and
options do.
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
"""Options: the store's name; what `live_table` has taken from the query."""

# Sessions that know the format: Spark warns where it is told a second time.
_told: WeakSet[SparkSession] = WeakSet()

_OWN = ("key", "key.from", "key.to", "window.from", "window.to")


class Table(Protocol):
    """Where a table is read. It travels to the workers."""

    def describe(self) -> StoreTable:
        """Its columns and how many partitions it has."""

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """What is asked for of a partition."""


@dataclass(frozen=True)
class ServedTable:
    """A table that is read from the query servers of an application."""

    store: str
    servers: Servers

    def describe(self) -> StoreTable:
        """Its columns and how many partitions it has."""
        return self.servers.table_now(self.store)

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        """What is asked for of a partition."""
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
        """As it is named in Spark."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the store's table.

        Of a table in a catalog Spark hands a Python data source its schema when it is read, and not its options: so these are
        noted with the schema, but for secrets.
        """
        return struct_of(self.table().describe().columns, {NAME: dict(_public(self.options))})

    def table(self) -> Table:
        """Where it is read."""
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
        """Reads these columns."""
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
    """One partition of a store; `keys` those that belong there, where single keys are wanted."""

    number: int
    keys: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class StoreReader(DataSourceReader):  # type: ignore[misc]
    """Reads one store. Keys that are asked for by name are looked up in the partition they belong to."""

    table: Table
    columns: Columns
    wanted: TableRead
    key_format: str | None
    count: int

    def partitions(self) -> list[InputPartition]:
        """A Spark task for each partition that has to be read."""
        if self.wanted.keys is None:
            return [_Part(number) for number in range(self.count)]
        homes: dict[int, list[Any]] = {}
        for key in self.wanted.keys:
            homes.setdefault(default_partition(key_bytes(key, str(self.key_format)), self.count), []).append(key)
        # Without any partition Spark would make one up.
        return [_Part(number, tuple(keys)) for number, keys in sorted(homes.items())] or [_Part(0, ())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What is asked for of a partition, as it is now."""
        if partition.keys is None:
            yield from self.table.batches(partition.number, self.wanted, self.columns)
            return
        # As queries do: what is not where it belongs, by the default partitioner, may have been written elsewhere.
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
    """Columns as SQL writes them.

    >>> ddl([("key", "string"), ("value", "bigint")])
    'key string, value bigint'
    """
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def struct_of(columns: Columns, metadata: Mapping[str, Any]) -> StructType:
    """Columns as Spark's schema, with something noted at the first of them."""
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
    """Make the format known to a session; once is enough, twice is fine. Nothing else of the session changes."""
    if spark not in _told:
        spark.dataSource.register(PenstockDataSource)
        _told.add(spark)
