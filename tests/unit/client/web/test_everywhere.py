"""Answers are of the whole store: every partition is accounted for, or the answer is that it cannot be told now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import TaskId, ValueAndTimestamp
from penstock.client.web.everywhere import Everywhere
from penstock.client.web.forwarding import Forwarder
from tests.unit.client.web.served import Served
from tests.unit.client.web.test_server import KEYS, fill

TOKEN = {"Authorization": "Bearer secret"}
FORWARDED = {**TOKEN, "X-Penstock-Forwarded": "1"}
RANGE = "/api/stores/counts/range?limit=1000"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    first, second = Served(tmp_path / "a", "secret", [0]), Served(tmp_path / "b", "secret", [1, 2])
    hosts = {0: first.address, 1: second.address, 2: second.address}
    fill(first.serve(hosts), second.serve(hosts))
    yield first, second
    first.close()
    second.close()


def give_up(served: Served, partition: int) -> TaskId:
    """A task that is not there any more, although the group's last word was that it is."""
    task = next(task for task in served.world.loop.owners if task.partition == partition)
    del served.world.loop.owners[task]
    return task


# -- ranges


def test_should_not_take_a_store_that_nobody_has_now_for_an_empty_one(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    for partition in range(3):
        assert len(served.get(RANGE)[1]["entries"]) == 250
        task = give_up(served, partition)
        status, found = served.get(RANGE)
        assert (status, f"partitions {partition} of store counts" in found["error"]) == (503, True)
        served.world.loop.owners[task] = 0
    served.world.loop.owners.clear()
    assert served.get(RANGE)[0] == 503
    assert served.get("/api/stores/counts/table")[0] == 503
    served.close()


def test_should_not_leave_out_what_another_instance_has_given_up(two: tuple[Served, Served]) -> None:
    first, second = two
    assert [entry["key"] for entry in first.get(RANGE, TOKEN)[1]["entries"]] == KEYS
    give_up(second, 2)
    status, found = first.get(RANGE, TOKEN)
    assert (status, "0, 1 were read" in found["error"]) == (503, True)
    second.world.loop.owners.clear()
    assert first.get(RANGE, TOKEN)[0] == 503
    assert second.get(RANGE, TOKEN)[0] == 503


def test_should_not_count_a_partition_twice_that_two_instances_have(two: tuple[Served, Served]) -> None:
    first, second = two
    task = give_up(second, 2)
    second.world.loop.owners[task] = 0
    world: Any = first.world
    world.loop.owners[next(t for t in world.plan.tasks() if t.partition == 1)] = 0
    world.write("counts", 1).put("k001", ValueAndTimestamp(-1, 0))
    world.commit()
    assert first.get(RANGE, TOKEN)[0] == 503


def test_should_tell_other_instances_which_partitions_a_page_is_of(two: tuple[Served, Served]) -> None:
    first, second = two
    assert first.get(RANGE, FORWARDED)[1]["partitions"] == [0]
    assert second.get(RANGE, FORWARDED)[1]["partitions"] == [1, 2]
    assert "partitions" not in second.get(RANGE, TOKEN)[1]


@pytest.mark.parametrize("told", [None, [1], [1, 2, 3], [0, 1, 2], [], "1, 2", [True, 2], {"1": 2}])
def test_should_not_believe_a_page_that_is_of_other_partitions(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    first, _ = two
    page = {"entries": [], "next": None, **({} if told is None else {"partitions": told})}
    monkeypatch.setattr(Forwarder, "get", lambda *_: dict(page))
    assert first.get(RANGE, TOKEN)[0] in (502, 503)


def test_should_not_answer_with_what_has_moved_while_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    local, asked = Everywhere.local, []

    def moving(everywhere: Everywhere, name: str) -> Any:
        asked.append(name)
        if len(asked) == 2:
            give_up(served, 1)
        return local(everywhere, name)

    monkeypatch.setattr(Everywhere, "local", moving)
    assert served.get(RANGE)[0] == 503
    served.close()


# -- keys that are not where the default partitioner says


def elsewhere(served: Served, name: str, key: str) -> int:
    """A partition that the key does not belong to."""
    world = served.world
    return (world.locations.task_of_key(name, key, world.stores.store(name).key_serde).partition + 1) % 3


def test_should_look_for_a_key_in_all_partitions(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    fill(served)
    partition = elsewhere(served, "counts", "astray")
    served.world.write("counts", partition).put("astray", ValueAndTimestamp(7, 70))
    served.world.write("windows", elsewhere(served, "windows", "astray")).put("astray", ValueAndTimestamp(8, 1000), 1000)
    served.world.write("versions", elsewhere(served, "versions", "astray")).put("astray", "v", 1000)
    served.world.commit()
    status, found = served.get("/api/stores/counts/keys/astray")
    assert (status, found["value"], found["timestamp"], found["partition"]) == (200, 7, 70, partition)
    assert [entry["value"] for entry in served.get("/api/stores/windows/windows/astray")[1]["entries"]] == [8]
    assert served.get("/api/stores/versions/keys/astray?as_of=1500")[1]["value"] == "v"
    assert served.get("/api/stores/counts/keys/nobody") == (404, {"error": "store counts has no key nobody"})
    assert served.get("/api/stores/windows/windows/nobody") == (200, {"entries": [], "next": None})
    served.close()


def test_should_look_for_a_key_at_other_instances_too(two: tuple[Served, Served]) -> None:
    for served in two:
        for partition in served.world.loop.owners:
            served.world.write("counts", partition.partition).put(f"astray-{partition.partition}", ValueAndTimestamp(1, 1))
            served.world.write("windows", partition.partition).put(f"astray-{partition.partition}", ValueAndTimestamp(1, 0), 0)
        served.world.commit()
    for served in two:
        for partition in range(3):
            _, found = served.get(f"/api/stores/counts/keys/astray-{partition}", TOKEN)
            assert (found["partition"], found["host"]) == (partition, two[min(partition, 1)].address)
            _, found = served.get(f"/api/stores/windows/windows/astray-{partition}", TOKEN)
            assert len(found["entries"]) == 1
        assert served.get("/api/stores/counts/keys/nobody", TOKEN)[0] == 404
        assert served.get("/api/stores/windows/windows/nobody", TOKEN) == (200, {"entries": [], "next": None})


def test_should_not_say_that_there_is_no_such_key_before_all_have_been_asked(two: tuple[Served, Served]) -> None:
    first, second = two
    serde = first.world.stores.store("counts").key_serde
    homes = {k: first.world.locations.task_of_key("counts", k, serde).partition for k in (f"no-{n}" for n in range(40))}
    here = next(key for key, partition in homes.items() if partition == 0)
    there = next(key for key, partition in homes.items() if partition == 1)
    assert {served.get(f"/api/stores/counts/keys/{key}", TOKEN)[0] for served in two for key in (here, there)} == {404}
    give_up(second, 2)
    for served in two:
        for key in (here, there):
            status, found = served.get(f"/api/stores/counts/keys/{key}", TOKEN)
            assert (status, "0, 1 of store counts" in found["error"]) == (503, True)
        assert served.get(f"/api/stores/windows/windows/{there}", TOKEN)[0] == 503
    second.service.close()
    assert first.get(f"/api/stores/counts/keys/{here}", TOKEN)[0] == 503
    assert first.get(f"/api/stores/counts/keys/{KEYS[0]}", TOKEN)[0] in (200, 503)


def test_should_tell_other_instances_in_which_partitions_a_key_is_not(two: tuple[Served, Served]) -> None:
    first, second = two
    serde = first.world.stores.store("counts").key_serde
    key = next(k for k in (f"no-{n}" for n in range(40)) if first.world.locations.task_of_key("counts", k, serde).partition == 0)
    path = f"/api/stores/counts/keys/{key}"
    assert first.get(path, FORWARDED)[1]["partitions"] == [0]
    assert second.get(path, FORWARDED)[0] == 503, "it does not belong there: it has moved"
    status, found = second.get(f"{path}?beyond_home=true", FORWARDED)
    assert (status, found["partitions"]) == (404, [1, 2])
    assert second.get(f"{path}?beyond_home=true", TOKEN)[0] == 404, "only instances may ask for less than all"


def test_should_read_a_key_where_it_belongs_and_nowhere_else_if_it_is_there(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = two
    serde = first.world.stores.store("counts").key_serde
    key = next(k for k in KEYS if first.world.locations.task_of_key("counts", k, serde).partition == 0)
    first.get(f"/api/stores/counts/keys/{key}", TOKEN)
    monkeypatch.setattr(Forwarder, "get", lambda *_: pytest.fail("nobody has to be asked"))
    monkeypatch.setattr(Everywhere, "_in_order", lambda *_: pytest.fail("nothing else has to be looked into"))
    assert first.get(f"/api/stores/counts/keys/{key}", TOKEN)[0] == 200
