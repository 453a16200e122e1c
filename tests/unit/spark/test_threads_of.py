from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.driver import session


@pytest.mark.parametrize(("wanted", "threads", "warns"), [(None, 2, False), (2, 2, False), (4, 4, True)])
def test_should_warn_of_more_stream_threads_than_task_slots(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: int | None, threads: int, warns: bool
) -> None:
    monkeypatch.setattr(session, "wait_for_executors", lambda *_: ["driver"])
    context: Any = SimpleNamespace(defaultParallelism=2, getConf=lambda: SimpleNamespace(getAll=list[tuple[str, str]]))
    with caplog.at_level(logging.WARNING):
        assert session.threads_of(context, wanted) == threads
    assert ("Spark runs 2 tasks at a time" in caplog.text) is warns
