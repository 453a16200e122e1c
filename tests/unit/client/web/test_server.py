"""The query server: real sockets, real stores."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import (
    ConfigError,
    SessionWindow,
    State,
    StateStoreNotAvailableError,
    StreamsError,
    TaskId,
    ValueAndTimestamp,
    Windowed,
)
from penstock.client.web.server import bind
from penstock.query.table_read import ALL
from penstock.runtime.queries.arrow_table import columns_of, schema_of
from penstock.spark.messages import Application
from penstock.spark.queries.state_tables import read_source
from penstock.spark.queries.store_locator import StoreSource
from tests.harness.kafka import wait_until
from tests.unit.client.web.served import Served

KEYS = [f"k{n:03}" for n in range(250)]


def fill(*servers: Served) -> None:
    """The same entries, each where it belongs."""
    for server in servers:
        world = server.world
        mine = {t.partition for t in world.loop.owners}

        def home(name: str, key: Any, world: Any = world, mine: Any = mine) -> Any:
            task = world.locations.task_of_key(name, key, world.stores.store(name).key_serde)
            return world.write(name, task.partition) if task.partition in mine else None

        def put(name: str, key: Any, *arguments: Any, home: Any = home) -> None:
            store = home(name, key.key if isinstance(key, Windowed) else key)
            if store is not None:
                store.put(key, *arguments)

        for number, key in enumerate(KEYS):
            put("counts", key, ValueAndTimestamp(number, 1000 + number))
        for start in (1000, 2000, 3000):
            put("windows", "a/b ü", ValueAndTimestamp(start, start), start)
        put("sessions", Windowed("alice", SessionWindow(1000, 1500)), 4)
        put("versions", "v", "old", 1000)
        put("versions", "v", "new", 2000)
        put("numbers", -7, {"name": "Ä", "list": [1, None]})
        put("raw", b"\x00\xff", b"\x01")
        put("documents", ["x", 1], 1.5)
        world.commit()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("served")).serve()
    fill(served)
    yield served
    served.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    first, second = Served(tmp_path / "a", "secret", [0]), Served(tmp_path / "b", "secret", [1, 2])
    hosts = {0: first.address, 1: second.address, 2: second.address}
    fill(first.serve(hosts), second.serve(hosts))
    yield first, second
    first.close()
    second.close()


def test_should_answer_for_a_key(server: Served) -> None:
    status, found = server.get("/api/stores/counts/keys/k007")
    assert status == 200
    assert (found["key"], found["value"], found["timestamp"], found["host"]) == ("k007", 7, 1007, server.address)
    assert found["partition"] in (0, 1, 2)


@pytest.mark.parametrize(
    ("store", "key", "value"),
    [
        ("numbers", "-7", {"name": "Ä", "list": [1, None]}),
        ("raw", json.dumps(base64.b64encode(b"\x00\xff").decode()), "AQ=="),
        ("documents", '["x", 1]', 1.5),
        ("versions", "v", "new"),
        ("versions", "v?as_of=1500", "old"),
    ],
)
def test_should_take_and_give_what_the_serdes_do(server: Served, store: str, key: str, value: Any) -> None:
    text, _, query = key.partition("?")
    status, found = server.get(f"/api/stores/{store}/keys/{quote(text, safe='')}?{query}")
    assert (status, found["value"]) == (200, value)


def test_should_page_through_all_keys_in_order(server: Served) -> None:
    seen: list[str] = []
    target = "/api/stores/counts/range?limit=60"
    while True:
        status, page = server.get(target)
        assert status == 200
        seen += [entry["key"] for entry in page["entries"]]
        if page["next"] is None:
            break
        target = f"/api/stores/counts/range?limit=60&from={quote(page['next'])}"
    assert seen == KEYS
    _, some = server.get("/api/stores/counts/range?from=k010&to=k012")
    assert [(e["key"], e["value"], e["timestamp"]) for e in some["entries"]] == [
        ("k010", 10, 1010),
        ("k011", 11, 1011),
        ("k012", 12, 1012),
    ]
    assert len(server.get("/api/stores/counts/range?limit=99999")[1]["entries"]) == 250


def test_should_answer_with_windows_and_sessions(server: Served) -> None:
    status, found = server.get(f"/api/stores/windows/windows/{quote('a/b ü', safe='')}?from=1500&to=9999")
    assert status == 200
    assert found["entries"] == [
        {"key": "a/b ü", "start": start, "end": start + 1000, "value": start, "timestamp": start} for start in (2000, 3000)
    ]
    _, sessions = server.get("/api/stores/sessions/windows/alice?from=&to=")
    assert sessions["entries"] == [{"key": "alice", "start": 1000, "end": 1500, "value": 4}]
    _, page = server.get(f"/api/stores/windows/windows/{quote('a/b ü', safe='')}?limit=2")
    assert page["next"] == 3000


def test_should_tell_of_stores_keys_and_the_application(server: Served) -> None:
    _, stores = server.get("/api/stores")
    assert {s["name"]: s["kind"] for s in stores["stores"]} == {
        "counts": "key-value",
        "documents": "key-value",
        "numbers": "key-value",
        "raw": "key-value",
        "sessions": "session",
        "versions": "versioned",
        "windows": "window",
    }
    assert stores["stores"][0]["partitions"] == 3
    assert stores["stores"][0]["hosts"] == [server.address]
    _, where = server.get("/api/stores/counts/metadata/k001")
    assert where["active"] == server.address
    assert where["standbys"] == []
    _, app = server.get("/api/app")
    assert app["state"] == "RUNNING"
    assert {task["role"] for task in app["tasks"]} == {"active"}
    assert app["tasks"][0]["lag"] == 7
    assert app["lag"] == 13, "what several tasks have to read is counted once"
    assert {"topic": "before", "partition": 0, "lag": 4, "committed": 100, "end": 104} in app["partitions"]
    assert app["topology"]["edges"]
    assert app["picture"].startswith("<svg")
    assert "penstock_running 1" in server.get("/metrics")[1]
    status, page = server.get("/")
    assert status == 200
    assert "<html" in page
    _, description = server.get("/openapi.json")
    assert "/api/stores/{store}/keys/{key}" in description["paths"]


@pytest.mark.parametrize(
    ("status", "target"),
    [
        (404, "/api/stores/nothing/keys/a"),
        (404, "/api/stores/counts/keys/nobody"),
        (404, "/nothing"),
        (400, "/api/stores/numbers/keys/abc"),
        (400, "/api/stores/numbers/keys/1.5"),
        (400, "/api/stores/numbers/keys/99999999999999999999999"),
        (400, "/api/stores/raw/keys/%22not%20base64%22"),
        (400, "/api/stores/counts/keys/%ff"),
        (400, "/api/stores/windows/keys/a"),
        (400, "/api/stores/counts/windows/a"),
        (400, "/api/stores/windows/range"),
        (400, "/api/stores/counts/range?from=z&to=a"),
        (400, "/api/stores/counts/range?limit=0"),
        (400, "/api/stores/counts/range?limit=many"),
        (400, "/api/stores/windows/windows/a?from=never"),
        (400, "/api/stores/windows/windows/a?from=5&to=4"),
        (414, "/api/stores/counts/keys/" + "a" * 20_000),
    ],
)
def test_should_refuse_with_a_status_and_a_reason(server: Served, status: int, target: str) -> None:
    found, body = server.get(target)
    assert (found, bool(body["error"])) == (status, True)


_DOUBLED = "with t0(x) as (select 1), t1(x) as (select a.x from t0 a, t0 b) select x from t1"


@pytest.mark.parametrize(
    "query", ["", f"?query={quote(_DOUBLED)}", "?query=select%20trim(key%2C%20key)%20from%20counts", "?query=values(1)"]
)
def test_should_have_no_sql(server: Served, query: str) -> None:
    status, found = server.get(f"/api/sql{query}")
    assert (status, found["error"]) == (404, "there is nothing at /api/sql; see /openapi.json")
    assert "/api/sql" not in server.get("/openapi.json")[1]["paths"]


def test_should_refuse_what_is_not_a_query(server: Served) -> None:
    assert server.get("/api/stores", method="POST")[0] == 405
    assert server.get("/api/stores", {"Content-Length": "99999999"})[0] == 413
    assert server.get("/api/stores", {"Host": "evil.example"})[0] == 403


def test_should_be_unavailable_while_tasks_are_opened(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    assert served.get("/api/stores/counts/keys/k001")[0] == 200
    served.world.loop.is_open = False
    assert served.get("/api/stores/counts/keys/k001")[0] == 503
    assert served.get("/api/stores/counts/range")[0] == 503
    served.world.loop.is_open = True
    served.world.state = State.PENDING_SHUTDOWN
    assert served.get("/api/app")[1]["state"] == "PENDING_SHUTDOWN"
    served.close()


def test_should_ask_for_the_token(two: tuple[Served, Served]) -> None:
    first, _ = two
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
        assert first.get("/api/stores", headers)[0] == 401
        assert first.get("/metrics", headers)[0] == 401
    assert first.get("/api/stores", {"Authorization": "Bearer secret"})[0] == 200
    assert first.get("/")[0] == 200


def test_should_answer_for_every_key_wherever_it_is(two: tuple[Served, Served]) -> None:
    token = {"Authorization": "Bearer secret"}
    hosts = set()
    for served in two:
        for number, key in enumerate(KEYS[:40]):
            status, found = served.get(f"/api/stores/counts/keys/{key}", token)
            assert (status, found["value"]) == (200, number)
            hosts.add(found["host"])
        _, page = served.get("/api/stores/counts/range?limit=1000", token)
        assert [entry["key"] for entry in page["entries"]] == KEYS
        _, page = served.get("/api/stores/counts/range?limit=7&from=k100", token)
        assert [entry["key"] for entry in page["entries"]] == KEYS[100:107]
        assert page["next"] == "k107"
        assert served.get("/api/stores/sessions/windows/alice", token)[1]["entries"][0]["value"] == 4
        assert served.get("/api/stores/counts/keys/nobody", token)[0] == 404
    assert hosts == {two[0].address, two[1].address}


def test_should_give_its_part_of_a_store_as_a_table(two: tuple[Served, Served]) -> None:
    rows = []
    for partition, served in enumerate((two[0], two[1], two[1])):
        source = StoreSource(TaskId(0, partition), "", server=served.address)
        application = served.world.spark_threads.application
        for name in ("counts", "windows"):
            columns = columns_of(served.world.stores.store(name))
            batches = list(read_source(_with_token(application), name, source, columns, ALL))
            assert all(batch.schema == schema_of(columns) for batch in batches)
            rows += [row for batch in batches for row in batch.to_pylist() if name == "counts"]
    assert sorted(row["key"] for row in rows) == KEYS
    token = {"Authorization": "Bearer secret"}
    assert two[0].get("/api/stores/counts/table?partition=1", token)[0] == 503
    assert two[0].get("/api/stores/counts/table?partition=one", token)[0] == 400
    assert two[0].get("/api/stores/counts/table?partition=3", token)[0] == 404
    with pytest.raises(StateStoreNotAvailableError, match="404"):
        list(read_source(_with_token(application), "nothing", source, [], ALL))


def _with_token(application: Application) -> Application:
    return replace(application, config=application.config.with_values({"application.server.token": "secret"}))


def test_should_say_that_the_other_instance_is_gone(two: tuple[Served, Served]) -> None:
    first, second = two
    second.service.close()
    statuses = {first.get(f"/api/stores/counts/keys/{key}", {"Authorization": "Bearer secret"})[0] for key in KEYS[:20]}
    assert statuses == {200, 503}


def test_should_answer_from_a_copy_only_where_that_is_allowed(two: tuple[Served, Served]) -> None:
    first, second = two
    world, token = first.world, {"Authorization": "Bearer secret"}
    serde = world.stores.store("counts").key_serde
    key, task = next((k, t) for k in KEYS if (t := world.locations.task_of_key("counts", k, serde)).partition)
    world.write("counts", task.partition).put(key, ValueAndTimestamp(-5, 1))
    world.commit()
    world.loop.standby_hosts = {task: ""}
    path = f"/api/stores/counts/keys/{key}"
    status, found = first.get(f"{path}?stale=true", token)
    assert (status, found["host"], found.get("stale")) == (200, second.address, None)
    second.world.loop.restoring = {task}
    assert first.get(path, token)[0] == 503
    assert first.get(f"{path}?stale=true", token)[1]["value"] == KEYS.index(key)  # the other reads what it has so far
    second.service.close()
    assert first.get(path, token)[0] == 503
    assert first.get(f"{path}?stale=false", token)[0] == 503
    _, found = first.get(f"{path}?stale=true", token)
    assert (found["value"], found["host"], found["stale"]) == (-5, first.address, True)
    assert first.get(f"{path}?stale=perhaps", token)[0] == 400


def test_should_not_read_a_partition_before_it_is_restored(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    restoring = next(iter(served.world.loop.owners))
    served.world.loop.restoring = {restoring}
    serde = served.world.stores.store("counts").key_serde
    for key in KEYS[:20]:
        here = served.world.locations.task_of_key("counts", key, serde).partition == restoring.partition
        assert served.get(f"/api/stores/counts/keys/{key}")[0] == (503 if here else 200)
    assert served.get("/api/stores/counts/range")[0] == 503
    states = {task["id"]: task["state"] for task in served.get("/api/app")[1]["tasks"]}
    assert states.pop(str(restoring)) == "RESTORING"
    assert set(states.values()) == {"RUNNING"}
    served.close()


def test_should_answer_others_while_a_client_stops_in_the_midst_of_it(server: Served) -> None:
    host = (server.service.host.host, server.service.host.port)
    stuck = []
    for sent in (
        b"",
        b"GET /api/stores HTTP/1.1\r\nHost: loc",
        b"GET /api/stores/counts/range?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        connection = socket.create_connection(host)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.sendall(sent)
        stuck.append(connection)
    for _ in range(20):
        assert server.get("/api/stores/counts/keys/k001")[0] == 200
    for connection in stuck:
        connection.close()


def test_should_refuse_a_head_without_end(server: Served) -> None:
    with socket.create_connection((server.service.host.host, server.service.host.port)) as connection:
        connection.settimeout(20)
        try:
            for _ in range(100):
                connection.sendall(b"x" * 100_000)
        except OSError:
            pass
        try:
            answer = connection.recv(100)
        except OSError:
            answer = b""
        assert answer.startswith(b"HTTP/1.1 400") or answer == b""
    assert server.get("/api/stores")[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /api/stores/counts/range?from=" + b"a" * 10_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /api/stores HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n" + b"a" * 10_000_000,
        b"GET /api/stores HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n989680\r\n" + b"a" * 10_000_000,
    ],
    ids=["address", "body", "chunks"],
)
def test_should_refuse_ten_megabytes_with_a_status(server: Served, sent: bytes) -> None:
    with socket.create_connection((server.service.host.host, server.service.host.port)) as connection:
        connection.settimeout(20)
        answer = b""
        with contextlib.suppress(OSError):  # it may have answered and closed before the end
            for start in range(0, len(sent), 4096):
                connection.sendall(sent[start : start + 4096])
        with contextlib.suppress(OSError):
            answer = connection.recv(100)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 414")) or answer == b""
    assert server.get("/api/stores/counts/keys/k001")[0] == 200


def test_should_give_a_range_that_never_ends_in_pages(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    for number in range(3_000):
        served.world.home_of("counts", f"k{number:05}").put(f"k{number:05}", ValueAndTimestamp(number, 0))
    for start in range(2_500):
        served.world.home_of("windows", "w").put("w", ValueAndTimestamp(start, start), 100 * start)
    served.world.commit()
    for limit in ("", "limit=1000000000", "limit=999999999"):
        status, page = served.get(f"/api/stores/counts/range?{limit}")
        if status == 200:
            assert (len(page["entries"]), page["next"]) in ((100, "k00100"), (1_000, "k01000"))
        else:
            assert status == 400
    status, page = served.get("/api/stores/windows/windows/w?from=0&limit=5000")
    assert (status, len(page["entries"]), page["next"] is not None) == (200, 1_000, True)
    served.close()


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Values of 3,000 bytes, of which three fit into an answer."""
    monkeypatch.setattr("penstock.client.web.answers.MAX_ANSWER_BYTES", 10_000)
    served = Served(tmp_path).serve()
    for number in range(20):
        served.world.home_of("numbers", number).put(number, "x" * 3_000)
        served.world.home_of("windows", "w").put("w", ValueAndTimestamp(number, number), 100 * number)
        served.world.home_of("raw", bytes([number])).put(bytes([number]), b"x" * 15_000)
    served.world.commit()
    yield served
    served.close()


def test_should_end_a_range_before_its_answer_is_too_large_and_go_on(large: Served) -> None:
    found: list[int] = []
    low = ""
    while True:
        status, page = large.get(f"/api/stores/numbers/range?limit=1000{low}")
        assert status == 200
        assert len(json.dumps(page)) < 11_000
        assert len(page["entries"]) == 3 or page["next"] is None
        found += [entry["key"] for entry in page["entries"]]
        if page["next"] is None:
            break
        low = f"&from={page['next']}"
    assert found == list(range(20))


def test_should_answer_with_one_entry_that_is_too_large_by_itself(large: Served) -> None:
    low = ""
    for number in range(20):
        status, page = large.get(f"/api/stores/raw/range?limit=1000{low}")
        assert status == 200
        assert [base64.b64decode(entry["key"]) for entry in page["entries"]] == [bytes([number])]
        assert base64.b64decode(page["entries"][0]["value"]) == b"x" * 15_000
        low = f"&from={quote(json.dumps(page['next']))}"
    assert page["next"] is None


@pytest.mark.parametrize("path", ["windows/windows/w", "windows/windows"])
def test_should_end_windows_before_their_answer_is_too_large_and_go_on(
    large: Served, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("penstock.client.web.answers.MAX_ANSWER_BYTES", 200)
    found: list[int] = []
    low = 0
    while low is not None:
        status, page = large.get(f"/api/stores/{path}?limit=1000&from={low}")
        assert status == 200
        assert len(json.dumps(page["entries"])) < 250
        found += [entry["start"] for entry in page["entries"]]
        low = page["next"]
    assert found == [100 * number for number in range(20)]


def test_should_skip_nothing_where_another_instance_ends_its_page_early(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.web.answers.MAX_ANSWER_BYTES", 400)
    found: list[str] = []
    low = ""
    while True:
        status, page = two[0].get(f"/api/stores/counts/range?limit=1000{low}", {"Authorization": "Bearer secret"})
        assert status == 200
        found += [entry["key"] for entry in page["entries"]]
        if page["next"] is None:
            break
        low = f"&from={page['next']}"
    assert found == sorted(KEYS)


def test_should_give_up_clients_that_stop_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.web.guard.SEND_SECONDS", 1.0)
    served = Served(tmp_path).serve()
    fill(served)
    for number in range(150):
        key = f"{number}".encode()
        served.world.home_of("raw", key).put(key, os.urandom(200_000))
    served.world.commit()
    stuck = []
    for _ in range(10):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect((served.service.host.host, served.service.host.port))
        connection.sendall(b"GET /api/stores/raw/table HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck.append(connection)
    for _ in range(20):
        assert served.get("/api/stores/raw/keys/%22MQ%3D%3D%22")[0] == 200
        assert served.get("/api/stores/counts/keys/k001")[0] == 200
    wait_until(lambda: served.get("/api/stores/raw/table", {"Connection": "close"}, read=False)[0] == 200, "there is room again")
    for connection in stuck:
        connection.close()
    served.close()


def test_should_refuse_addresses_that_others_can_reach_without_a_token() -> None:
    with pytest.raises(ConfigError, match=r"application\.server\.token"):
        bind("192.0.2.1:0", None)
    with pytest.raises(ConfigError, match="not known"):
        bind("no-such-host.invalid:80", None)
    with pytest.raises(ConfigError, match=r"plain text.*ssl\.certificate\.location.*plaintext\.allowed"):
        bind("192.0.2.1:0", "secret")
    listening, host = bind("192.0.2.1:0", "secret", confidential=True)
    with pytest.raises(StreamsError, match="another port"):
        bind(f"192.0.2.1:{host.port}", "secret", confidential=True)
    listening.close()


@pytest.mark.parametrize(
    "server",
    ["0.0.0.0:8080", "[::]:8080", "[::ffff:0.0.0.0]:8080", "224.0.0.1:80", "255.255.255.255:80", "0:80", "host:99999", ":80"],
)
def test_should_refuse_addresses_that_nobody_can_reach(server: str) -> None:
    with pytest.raises(ConfigError, match="name or address under which they reach this instance"):
        bind(server, "secret")


# -- whatever comes

_text = st.text(max_size=40)
_targets = st.one_of(
    st.builds(
        lambda store, what, key: f"/api/stores/{quote(store, safe='')}/{what}/{quote(key, safe='')}",
        st.sampled_from(["counts", "windows", "sessions", "versions", "numbers", "raw", "documents", "x"]),
        st.sampled_from(["keys", "windows", "metadata"]),
        st.one_of(
            _text,
            st.builds(
                json.dumps, st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | _text, st.lists, max_leaves=5)
            ),
        ),
    ),
    st.builds(
        lambda store, low, high, limit: f"/api/stores/{store}/range?from={quote(low)}&to={quote(high)}&limit={quote(limit)}",
        st.sampled_from(["counts", "numbers", "raw", "documents", "windows"]),
        _text,
        _text,
        st.one_of(_text, st.integers().map(str)),
    ),
    st.builds(
        lambda low, high: f"/api/stores/windows/windows/a?from={quote(low)}&to={quote(high)}",
        st.one_of(_text, st.integers().map(str)),
        st.one_of(_text, st.integers().map(str)),
    ),
    st.binary(max_size=60).map(lambda raw: "/" + quote(raw)),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(target=_targets)
def test_should_have_an_answer_to_everything(server: Served, target: str) -> None:
    status, body = server.get(target)
    assert status in (200, 400, 404, 405, 414), (target, status, body)
    if status != 200:
        assert body["error"]


def test_should_close_connections_that_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.web.connections.HEAD_SECONDS", 0.2)
    served = Served(tmp_path).serve()
    with socket.create_connection((served.service.host.host, served.service.host.port)) as connection:
        connection.sendall(b"GET / HT")
        connection.settimeout(20)
        started = time.monotonic()
        assert connection.recv(10) == b""
        assert time.monotonic() - started < 20
    served.close()
