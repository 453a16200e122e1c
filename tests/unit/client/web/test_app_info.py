from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.harness.waiting import LIMIT
from tests.unit.client.web.served import Served


def test_should_tell_of_the_application_while_brokers_do_not_answer(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    assert served.get("/api/app")[1]["lag"] == 13
    away = threading.Event()
    tasks: Any = served.world.loop.tasks
    tasks.lags = lambda ends: away.wait(LIMIT)
    try:
        for _ in range(4):  # more than there are threads for such requests
            status, app = served.get("/api/app")
            assert (status, app["state"], app["lag"]) == (200, "RUNNING", 13), "what was known last is told"
        assert served.get("/metrics")[0] == 200
    finally:
        away.set()
        served.close()


def test_should_tell_which_thread_waits_for_a_core(tmp_path: Path) -> None:
    served = Served(tmp_path).serve()
    try:
        assert [thread["waiting_for_core_seconds"] for thread in served.get("/api/app")[1]["threads"]] == [None]
        served.world.loop.waiting_for_core = {"app-StreamThread-1": 12.34}
        assert [thread["waiting_for_core_seconds"] for thread in served.get("/api/app")[1]["threads"]] == [12.3]
    finally:
        served.close()
