"""Where tables are read: told by the driver when they are, not when they were made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import InvalidStateStoreError, StateStoreMigratedError, StreamsRebalancingError, TaskId, ValueAndTimestamp
from penstock.client.queries.locations import Locations
from penstock.client.queries.tables import StateTables
from penstock.kafka.membership import Membership
from penstock.query.table_read import ALL
from penstock.spark.queries import store_locator
from penstock.spark.queries.state_tables import located_batches
from penstock.spark.queries.store_locator import StoreLocator, ask
from tests.unit.client.queries.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.open_all()
    yield world
    world.close()


@pytest.fixture
def guided(world: World) -> Iterator[StoreLocator]:
    tables = StateTables(None, world.stores, lambda: world.locations)
    guided = StoreLocator(local(), world.spark_threads.application, tables._source_of)
    yield guided
    guided.close()


def local() -> Any:
    return SimpleNamespace(master="local[1]")


def rows(world: World, guided: StoreLocator, partition: int) -> list[Any]:
    application = world.spark_threads.application
    columns = [("key", "string"), ("value", "bigint"), ("timestamp", "bigint")]
    batches = located_batches(application, "counts", TaskId(0, partition), columns, guided.address, ALL)
    return [row for batch in batches for row in batch.to_pylist()]


def test_should_read_a_partition_where_it_is_now(world: World, guided: StoreLocator) -> None:
    world.write("counts", 1).put("a", ValueAndTimestamp(1, 7))
    world.commit()
    assert rows(world, guided, 1) == [{"key": "a", "value": 1, "timestamp": 7}]
    world.write("counts", 1).put("a", ValueAndTimestamp(2, 8))
    world.commit()
    assert rows(world, guided, 1) == [{"key": "a", "value": 2, "timestamp": 8}]


def test_should_wait_while_a_partition_is_opened(world: World, guided: StoreLocator) -> None:
    world.loop.is_open = False
    timer = threading.Timer(0.5, lambda: setattr(world.loop, "is_open", True))
    timer.start()
    assert rows(world, guided, 0) == []
    timer.join()


def test_should_ask_for_other_instances_servers_only_where_there_are_others(world: World) -> None:
    tables = StateTables(None, world.stores, lambda: world.locations)
    del world.loop.owners[TaskId(0, 1)]

    def owned_by(*processes: str) -> None:
        owners = {task: processes[number % len(processes)] for number, task in enumerate(world.plan.tasks())}
        world.locations = Locations(world.plan, Membership(1, b"", (), owners, {}), frozenset())

    owned_by("this")
    with pytest.raises(StreamsRebalancingError, match="partitions 1 of store counts are being opened"):
        tables._sources("counts")
    owned_by("this", "that")
    with pytest.raises(InvalidStateStoreError, match=r"Set application\.server"):
        tables._sources("counts")


def test_should_say_what_is_wrong(world: World, guided: StoreLocator, monkeypatch: pytest.MonkeyPatch) -> None:
    application = world.spark_threads.application
    with pytest.raises(StateStoreMigratedError, match="Make the table again"):
        ask(guided.address, application, "counts", TaskId(0, 17))
    with pytest.raises(InvalidStateStoreError, match="another key"):
        ask(guided.address, replace(application, query_key=b"wrong"), "counts", TaskId(0, 0))
    monkeypatch.setattr(store_locator, "_PATIENCE", 0.2)
    guided.close()
    with pytest.raises(InvalidStateStoreError, match="while its application runs"):
        ask(guided.address, application, "counts", TaskId(0, 0))
