"""A thread whose row is kept on its executor, and what becomes of it when that is gone from Spark's storage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.driver import thread_worker as module
from penstock.spark.driver.thread_worker import ThreadWorker
from tests.harness.waiting import LIMIT

PLACE = "executor_host_1"


def test_should_make_its_row_anew_after_somebody_has_cleared_sparks_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may unpersist all RDDs of a session: the thread's jobs fail then, and must not fail for ever."""
    anchors: list[SimpleNamespace] = []

    def anchored(spark: Any, place: str) -> Any:
        anchors.append(SimpleNamespace(is_kept=True))
        return anchors[-1]

    def run(rows: Any) -> bytes:
        if not rows.is_kept:
            raise RuntimeError("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")
        return b"done"

    monkeypatch.setattr(module, "worker_environment", lambda spark, variables: variables)
    monkeypatch.setattr(module, "located", lambda spark, place: SimpleNamespace(is_kept=True))
    monkeypatch.setattr(module, "anchored", anchored)
    monkeypatch.setattr(module, "bytes_in_environment", lambda rows, function, environment: rows)
    monkeypatch.setattr(module, "first_of_partition", run)
    monkeypatch.setattr(
        module, "read_from_worker", lambda said: (SimpleNamespace(host="elsewhere", process=1, daemon=0), 0, said)
    )
    spark: Any = SimpleNamespace(setJobGroup=lambda *_, **__: None, setLocalProperty=lambda *_: None)
    worker = ThreadWorker(spark, "t1", PLACE, "cleared-1")

    def job() -> bytes:
        return worker.submit(lambda rows: [b""], "a turn", bytes).result(LIMIT)

    assert [job(), job()] == [b"done"] * 2
    assert len(anchors) == 1
    anchors[0].is_kept = False
    with pytest.raises(RuntimeError, match="NOT_FOUND"):
        job()
    assert [job(), job()] == [b"done"] * 2
    assert len(anchors) == 2
    worker.forsake()
