"""Reading state that lives on executors: in process, over HTTP, and as a table."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.harness.cluster import Cluster
from tests.harness.cluster_run import ClusterRun
from tests.harness.waiting import LIMIT


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2, apart=True) as cluster:
        yield cluster


@pytest.mark.slow  # a cluster, and a process of its own
@pytest.mark.parametrize("store", ["rocksdb", "in_memory"])
def test_should_read_state_of_executors_on_other_hosts(cluster: Cluster, kafka: Any, tmp_path: Path, store: str) -> None:
    # Once with a Python that only the executors have, where Spark can plan no Python data source.
    given = store == "in_memory"
    with ClusterRun(cluster, kafka, tmp_path, store, given, config={"application.server": "localhost:0"}) as run:
        run.feed(300)
        run.wait_for_counts()
        run.wait_for_executors(2)
        wanted = dict(run.expected)
        assert run.ask("store", stale=False) == wanted
        assert sorted(str(found) for found in run.ask("query", key="w7").values()) == sorted([str(wanted["w7"]), "None"])
        assert run.ask("table") == wanted
        for host, port in run.ask("listeners"):
            assert len(told_in_plain_text(host, port)) < 10  # an alert of TLS at most
        address = f"http://{run.ask('server')}/api/stores/counts"
        assert {entry["key"]: entry["value"] for entry in get(f"{address}/range?limit=1000")["entries"]} == wanted
        for word, count in wanted.items():
            assert get(f"{address}/keys/{word}")["value"] == count

        cluster.kill_executor(run.last_places()["1"][0])  # the table is read where the state has gone
        run.feed(100, seed=3)
        run.wait_for_counts()
        run.wait_for_executors(2)
        assert run.ask("table") == dict(run.expected)
        assert run.ask("store", stale=True) == dict(run.expected)


def told_in_plain_text(host: str, port: int) -> bytes:
    """What a thread or the driver says to who does not speak TLS."""
    told = b""
    with socket.create_connection((host, port), 60) as stranger, contextlib.suppress(ConnectionResetError):
        stranger.sendall(b"penstck1" + bytes(64))
        while part := stranger.recv(100):
            told += part
    return told


def get(address: str) -> Any:
    with urlopen(address, timeout=LIMIT) as answer:
        return json.load(answer)
