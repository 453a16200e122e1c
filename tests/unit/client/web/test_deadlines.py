"""Readers that take too long, or whose clients are gone, hold up neither others nor the threads they were read on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock import StateStoreNotAvailableError
from penstock.client.web import answers, application
from penstock.client.web.application import WebApplication
from penstock.client.web.forwarding import Forwarder
from penstock.query.metadata import HostInfo
from penstock.runtime.queries.deadline import Deadline, current
from penstock.runtime.queries.entries import entry
from tests.harness.kafka import wait_until
from tests.harness.waiting import LIMIT
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import fill


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path).serve()
    fill(served)
    yield served
    served.close()


@pytest.fixture
def slow_entries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Every entry of `counts` takes long; how many were read."""
    read = [0]

    def slow(*arguments: Any, **options: Any) -> Any:
        if isinstance(arguments[0], str) and arguments[0].startswith("k"):
            read[0] += 1
            time.sleep(0.3)
        return entry(*arguments, **options)

    monkeypatch.setattr(answers, "entry", slow)
    return lambda: read[0]


@pytest.fixture
def stuck_entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every entry of `counts` waits for the event, and nobody can interrupt that."""
    free = threading.Event()

    def stuck(*arguments: Any, **options: Any) -> Any:
        if isinstance(arguments[0], str) and arguments[0].startswith("k"):
            free.wait(LIMIT)
        return entry(*arguments, **options)

    monkeypatch.setattr(answers, "entry", stuck)
    yield free
    free.set()


def busy(served: Served) -> int:
    web = served.service._web
    assert isinstance(web, WebApplication)
    return sum(room.busy for room in web._pools.values())


def test_should_free_its_thread_when_the_time_is_over(
    served: Served, slow_entries: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "REQUEST_SECONDS", 1.0)
    with ThreadPoolExecutor(12) as clients:
        found = list(clients.map(served.get, ["/api/stores/counts/range?limit=250"] * 12))
    assert {status for status, _ in found} == {503}
    wait_until(lambda: busy(served) == 0, "all threads are free")
    read = slow_entries()
    assert served.get("/api/stores/documents/range")[0] == 200
    assert slow_entries() == read, "nobody reads any more"


def test_should_free_its_thread_when_the_client_is_gone(served: Served, slow_entries: Callable[[], int]) -> None:
    for _ in range(12):
        with socket.create_connection((served.service.host.host, served.service.host.port)) as connection:
            connection.sendall(b"GET /api/stores/counts/range?limit=250 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.02)
    wait_until(lambda: slow_entries() > 0, "they are being read")
    wait_until(lambda: busy(served) == 0, "all threads are free")
    assert slow_entries() < 100


def test_should_give_views_back_when_the_client_of_a_table_is_gone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.queries.arrow_table._BATCH", 1)
    for _ in range(12):
        with socket.create_connection((served.service.host.host, served.service.host.port)) as connection:
            connection.sendall(b"GET /api/stores/counts/table HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.recv(10)
    wait_until(lambda: busy(served) == 0, "all threads are free")
    for local in served.world.stores.partitions("counts"):
        reader: Any = local.reader
        wait_until(lambda reader=reader: len(reader._free) == reader._count, "all views are given back")  # type: ignore[misc]
    wait_until(lambda: served.get("/api/stores/counts/table", read=False)[0] == 200, "there is room for a table again")


def test_should_answer_others_while_readers_are_stuck_for_good(
    served: Served, stuck_entries: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "REQUEST_SECONDS", 1.0)
    with ThreadPoolExecutor(24) as clients:
        ranges = clients.map(served.get, ["/api/stores/counts/range"] * 12)
        assert {status for status, _ in ranges} == {503}
    assert busy(served) > 0
    status, found = served.get("/api/stores/counts/range")
    assert (status, "stuck" in found["error"]) == (503, True), "it is said at once"
    assert served.get("/api/stores/documents/range")[0] == 200
    assert served.get("/api/stores/versions/keys/v")[0] == 200
    assert served.get("/api/stores/sessions/windows/alice")[0] == 200
    stuck_entries.set()
    wait_until(lambda: busy(served) == 0, "all threads are free")
    assert served.get("/api/stores/counts/range")[0] == 200


def test_should_tell_of_the_application_while_as_many_queries_hang_as_there_may(
    served: Served, stuck_entries: threading.Event
) -> None:
    address = served.service.host.host, served.service.host.port
    hanging = []
    for _ in range(100):
        connection = socket.create_connection(address)
        connection.sendall(b"GET /api/stores/counts/range HTTP/1.1\r\nHost: localhost\r\n\r\n")
        hanging.append(connection)
    wait_until(lambda: served.get("/api/stores/documents/keys/1")[0] == 503, "no more queries are taken")
    for path in ("/api/app", "/metrics", "/", "/api/stores", "/openapi.json"):
        assert served.get(path)[0] == 200, path
    stuck_entries.set()
    for connection in hanging:
        connection.close()
    wait_until(lambda: served.get("/api/stores/documents/range")[0] == 200, "queries are taken again")


def test_should_not_look_up_keys_with_a_users_serde_on_the_thread_of_all(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    store = served.world.stores.store("counts")
    assert served.get("/api/stores/counts/keys/k001")[0] == 200
    threads: list[str] = []

    def noting(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        return entry(*arguments, **options)

    monkeypatch.setattr(answers, "entry", noting)
    assert served.get("/api/stores/counts/keys/k001")[0] == 200
    monkeypatch.setattr(store, "has_builtin_serdes", False)
    assert served.get("/api/stores/counts/keys/k001")[0] == 200
    assert threads[0] == "penstock-query-server"
    assert threads[1].startswith("penstock-http-keys")


def test_should_not_wait_for_a_view_longer_than_its_reader(served: Served) -> None:
    reader = served.world.stores.partitions("counts")[0].reader
    with contextlib.ExitStack() as all_of_them:
        for _ in range(8):
            all_of_them.enter_context(reader.lease())
        deadline = Deadline(60)
        threading.Timer(0.2, deadline.give_up).start()
        with deadline, pytest.raises(StateStoreNotAvailableError, match="given up"):
            reader.lease()
        with Deadline(0.2), pytest.raises(StateStoreNotAvailableError, match="longer than"):
            reader.lease()
    assert not current().is_over
    reader.lease().close()


def test_should_not_wait_for_another_instance_longer_than_its_reader() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        forwarder = Forwarder(None)
        with Deadline(0.2), pytest.raises(StateStoreNotAvailableError, match="longer than"):
            forwarder.get(HostInfo("127.0.0.1", silent.getsockname()[1]), "/api/stores", {})
        forwarder.close()


def test_should_not_wait_for_an_answer_that_trickles() -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:

        def trickle() -> None:
            with contextlib.suppress(OSError), slow.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while True:
                    connection.sendall(b"a")
                    time.sleep(0.05)

        trickling = threading.Thread(target=trickle)
        trickling.start()
        forwarder = Forwarder(None)
        with Deadline(0.3), pytest.raises(StateStoreNotAvailableError, match="longer than"):
            forwarder.get(HostInfo("127.0.0.1", slow.getsockname()[1]), "/api/stores", {})
        forwarder.close()
        trickling.join()  # the other side is told, and does no more for nobody
