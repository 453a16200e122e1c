from __future__ import annotations

from pathlib import Path

from tests.unit.client.web.served import Served


def test_should_tell_the_lag_of_tasks_and_partitions(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    try:
        app = served.get("/api/app")[1]
        assert app["lag"] == 13
        assert {task["lag"] for task in app["tasks"]} == {7}
        assert app["partitions"][0] == {"topic": "before", "partition": 0, "lag": 4, "committed": 100, "end": 104}
    finally:
        served.close()


def test_should_tell_which_thread_waits_for_a_core(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    try:
        assert [thread["waiting_for_core_seconds"] for thread in served.get("/api/app")[1]["threads"]] == [None]
        served.world.loop.waiting_for_core = {"app-StreamThread-1": 12.34}
        assert [thread["waiting_for_core_seconds"] for thread in served.get("/api/app")[1]["threads"]] == [12.3]
    finally:
        served.close()
