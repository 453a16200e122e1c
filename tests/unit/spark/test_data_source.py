"""The data source without Spark's JVM: planned and read as Spark's Python workers do, from real query servers."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from penstock import ConfigError, InvalidStateStoreError, StateStoreNotAvailableError, UnknownStateStoreError
from penstock.query.table_read import ALL, TableRead
from penstock.runtime.queries.entries import all_entries, entries_for
from penstock.spark.queries import remote_tables
from penstock.spark.queries.data_source import PenstockDataSource, StoreReader
from penstock.spark.queries.live_table import live_dataframe
from penstock.spark.queries.remote_tables import Columns, Servers, StoreTable
from tests.unit.client.queries.world import World
from tests.unit.client.web.served import Served
from tests.unit.client.web.served_twice import served_twice
from tests.unit.client.web.test_server import KEYS


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    with served_twice(tmp_path_factory.mktemp("two")) as both:
        yield both


def options(served: Served, store: str, **others: str) -> dict[str, str]:
    names = {name.replace("_", "."): value for name, value in others.items()}
    return {"application.server": served.address, "application.server.token": "secret", "store": store, **names}


def reader_of(source: PenstockDataSource, columns: list[str] | None = None) -> Any:
    schema = StructType([field for field in source.schema().fields if columns is None or field.name in columns])
    return pickle.loads(pickle.dumps(source.reader(schema)))


def rows(reader: Any) -> list[Any]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_should_show_all_of_a_store_whichever_instance_is_asked(two: tuple[Served, Served]) -> None:
    for served in two:
        source = PenstockDataSource(options(served, "counts"))
        assert source.schema().simpleString() == "struct<key:string,value:bigint,timestamp:bigint>"
        found = rows(reader_of(source))
        assert sorted((row["key"], row["value"], row["timestamp"]) for row in found) == [
            (key, number, 1000 + number) for number, key in enumerate(KEYS)
        ]
    assert rows(reader_of(PenstockDataSource(options(two[0], "windows")), ["window_start", "key"])) == [
        {"key": "a/b ü", "window_start": start} for start in (1000, 2000, 3000)
    ]
    for store, count in (("sessions", 1), ("versions", 1), ("numbers", 1), ("raw", 1)):
        assert len(rows(reader_of(PenstockDataSource(options(two[0], store))))) == count


def test_should_read_what_options_and_filters_ask_for(two: tuple[Served, Served]) -> None:
    def keys(**asked: Any) -> list[str]:
        return sorted(row["key"] for row in rows(reader_of(PenstockDataSource(options(two[0], "counts", **asked)))))

    filters = json.dumps([["key", "in", ["k001", "k249", "nobody"]], ["value", ">", 5]])
    assert keys(key="k007") == ["k007"]
    assert keys(key_from="k100", key_to="k102") == KEYS[100:103]
    assert keys(penstock_filters=filters) == ["k001", "k249"]  # Spark drops the first
    assert keys(key="k001", penstock_filters=filters) == ["k001"]
    windows = PenstockDataSource(options(two[1], "windows", key="a/b ü", window_from="2000", window_to="2999"))
    assert [row["window_start"] for row in rows(reader_of(windows))] == [2000]


def test_should_say_what_is_wrong_and_no_secret(two: tuple[Served, Served], tmp_path: Path) -> None:
    served = two[0]
    with pytest.raises(UnknownStateStoreError, match=r"option\(\"store\""):
        PenstockDataSource({"application.server": served.address}).schema()
    with pytest.raises(ConfigError, match=r"application.server"):
        PenstockDataSource({"store": "counts"}).schema()
    with pytest.raises(ConfigError, match="is not the address of an instance"):
        PenstockDataSource({"store": "counts", "application.server": "here"}).schema()
    with pytest.raises(UnknownStateStoreError, match="nothing"):
        PenstockDataSource(options(served, "nothing")).schema()
    with pytest.raises(ConfigError, match="401") as refused:
        PenstockDataSource({**options(served, "counts"), "application.server.token": "a-secret-word"}).schema()
    assert "a-secret-word" not in str(refused.value)
    schema = StructType().add("key", StringType()).add("what", LongType())
    with pytest.raises(ConfigError, match=r"no column what bigint: its table is \(key string, value bigint"):
        PenstockDataSource(options(served, "counts")).reader(schema)
    with pytest.raises(ConfigError, match="only its serde"):
        reader_of(PenstockDataSource(options(served, "documents", key="x")), ["key"])
    with pytest.raises(ConfigError, match=r"application.server.token.file = .* cannot be read"):
        PenstockDataSource(
            {"store": "counts", "application.server": served.address, "application.server.token.file": "/no"}
        ).schema()
    assert "secret" not in repr(reader_of(PenstockDataSource(options(served, "counts"))))


def test_should_note_its_options_with_the_schema_for_catalogs_but_no_secret(two: tuple[Served, Served], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    asked = {**options(two[0], "counts", key="k003"), "application.server.token.file": str(tmp_path / "token")}
    schema = PenstockDataSource(asked).schema()
    assert '"secret"' not in schema.json()
    assert [row["value"] for row in rows(PenstockDataSource({}).reader(schema))] == [3]


def test_should_take_the_token_from_a_file_or_the_environment(
    two: tuple[Served, Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    plain = {"application.server": two[0].address, "store": "counts"}
    assert PenstockDataSource({**plain, "application.server.token.file": str(file)}).schema()
    monkeypatch.setenv("PENSTOCK_SERVER_TOKEN", "secret")
    assert PenstockDataSource(plain).schema()


def test_should_ask_the_next_server_where_one_is_gone(two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_tables, "_PATIENCE", 0.5)
    several = {**options(two[1], "counts"), "application.server": f"127.0.0.1:9, {two[1].address}"}
    assert len(rows(reader_of(PenstockDataSource(several)))) == 250
    with pytest.raises(StateStoreNotAvailableError, match=r"store counts at 127.0.0.1:9 cannot be read"):
        PenstockDataSource({**several, "application.server": "127.0.0.1:9"}).schema()


def test_should_not_send_a_token_in_plain_text_beyond_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        sock = type("Socket", (), {"getpeername": lambda self: ("10.1.2.3", 80), "settimeout": lambda self, _: None})()

        def connect(self) -> None: ...
        def close(self) -> None: ...

        def request(self, *arguments: Any, **named: Any) -> None:
            raise OSError("it was sent")

    monkeypatch.setattr(remote_tables, "peer_connection", lambda *arguments: Connection())
    asked = {"application.server": "shop:80", "application.server.token": "secret"}
    with pytest.raises(ConfigError, match="not sent to shop:80 in plain text"):
        Servers.of(asked).table("counts")
    for more in ({"application.server.plaintext.allowed": "true"}, {"application.server": "https://shop:80"}):
        with pytest.raises(StateStoreNotAvailableError, match="it was sent"):
            Servers.of({**asked, **more}).table("counts")


class Counting:
    """A table of keys that counts what is looked up where."""

    def __init__(self, homes: dict[int, list[str]]) -> None:
        self.homes = homes
        self.asked: list[tuple[int, TableRead]] = []

    def describe(self) -> StoreTable:
        raise AssertionError

    def batches(self, partition: int, read: TableRead, columns: Columns) -> Iterator[pa.RecordBatch]:
        self.asked.append((partition, read))
        found = [key for key in self.homes.get(partition, []) if read.keys is None or key in read.keys]
        if found:
            yield pa.RecordBatch.from_pydict({name: found for name, _ in columns})


def test_should_look_a_key_up_where_it_belongs_and_elsewhere_only_if_it_is_not_there() -> None:
    table = Counting({})
    reader = StoreReader(table, (("value", "string"),), TableRead(("b", "astray")), "string", 3)
    homes = {key: part.number for part in reader.partitions() for key in part.keys}
    table.homes = {homes["b"]: ["b"], (homes["astray"] + 1) % 3: ["astray"]}
    assert sorted(row["value"] for row in rows(reader)) == ["astray", "b"]
    looked_up = {key: [partition for partition, read in table.asked if key in (read.keys or ())] for key in homes}
    assert looked_up["b"] == [homes["b"]]
    assert looked_up["astray"][0] == homes["astray"]
    assert looked_up["astray"][-1] == (homes["astray"] + 1) % 3
    table.asked.clear()
    assert rows(StoreReader(table, (("key", "string"),), TableRead(()), "string", 3)) == []
    assert table.asked == []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.open_all()
    yield world
    world.close()


@pytest.mark.parametrize(
    ("store", "read", "entries"),
    [
        ("counts", TableRead(("k1", "no")), 1),
        ("counts", TableRead(low="k1", high="k2"), 2),
        ("counts", TableRead(low="k2", high="k1"), 0),
        ("counts", TableRead(high="k1"), 2),
        ("numbers", TableRead(low=-1, high=1), 3),
        ("numbers", TableRead(high=-1), 2),
        ("raw", TableRead((b"\x01",)), 1),
        ("windows", TableRead(("k1",)), 3),
        ("windows", TableRead(("k1",), start_low=2000), 2),
        ("windows", TableRead(start_low=1500, start_high=2000), 3),
        ("windows", TableRead(start_low=5, start_high=3), 0),
        ("windows", TableRead(start_high=-1), 0),
        ("sessions", TableRead(("k1",), start_low=1100), 2),
        ("sessions", TableRead(start_high=900), 3),
        ("versions", TableRead(("k1",)), 1),
        ("versions", TableRead(low="k9"), 3),  # their keys have no order: all is read
        ("documents", ALL, 0),
    ],
)
def test_should_read_no_more_of_a_store_than_it_has_to(world: World, store: str, read: TableRead, entries: int) -> None:
    from penstock import SessionWindow, ValueAndTimestamp, Windowed

    for number in range(3):
        key = f"k{number}"
        world.write("counts", 0).put(key, ValueAndTimestamp(number, 0))
        world.write("versions", 0).put(key, "v", 1000)
        world.write("raw", 0).put(bytes([number]), b"")
        for start in (1000, 2000, 3000):
            world.write("windows", 0).put(key, ValueAndTimestamp(1, start), start)
            session = SessionWindow(700 + start // 5, 710 + start // 5)  # they are kept for a second
            world.write("sessions", 0).put(Windowed(key, session), 1)
    for number in range(-2, 3):
        world.write("numbers", 0).put(number, {})
    world.commit()
    readable = world.stores.store(store)
    with next(p for p in world.stores.partitions(store) if p.partition == 0).reader.lease() as lease:
        found = list(entries_for(readable, lease.store, read))
        everything = list(all_entries(lease.store))
    assert len(found) == entries
    assert all(entry in everything for entry in found)


def test_should_refuse_a_read_that_a_store_cannot_do(two: tuple[Served, Served]) -> None:
    token = {"Authorization": "Bearer secret"}
    for query in ("read={", 'read={"keys":[1]}', "columns=what", "columns=key,key", 'read={"low":1}'):
        assert two[0].get(f"/api/stores/counts/table?partition=0&{query}", token)[0] == 400
    assert two[0].get('/api/stores/documents/table?partition=0&read={"keys":["x"]}', token)[0] == 400
    with pytest.raises(InvalidStateStoreError, match="has key, value, timestamp"):
        list(Servers.of(options(two[0], "counts")).batches("counts", 0, ALL, [("what", "string")]))
    status, found = two[0].get("/api/stores/counts", token)
    assert (status, found["active"]) == (200, [two[0].address, two[1].address, two[1].address])
    assert (found["key_format"], found["partitions"], found["kind"]) == ("string", 3, "key-value")


def test_should_read_whole_tables_where_sparks_jvm_is_out_of_reach() -> None:
    class Reader(dict[str, Any]):
        def format(self, source: str) -> Reader:
            return Reader({**self, "format": source})

        def schema(self, schema: str) -> Reader:
            return Reader({**self, "schema": schema})

        def options(self, **options: str) -> Reader:
            return Reader({**self, **options})

        def load(self) -> Reader:
            return self

    class Connected:
        read = Reader()

        @property
        def sparkContext(self) -> Any:
            raise AttributeError("a session of Spark Connect has no JVM")

    session: Any = Connected()
    wanted = {"format": "penstock", "schema": "key string", "store": "counts"}
    assert live_dataframe(session, "penstock", "key string", {"store": "counts"}) == wanted
